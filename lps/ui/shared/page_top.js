// For lps/ui/shared/page_head.py: another part of a page begins at its top, wherever the last one was left.

export default function ({ data }) {
  if (window.lpsPagePart !== undefined && window.lpsPagePart !== data) {
    document.querySelector("[data-testid=stMain]")?.scrollTo({ top: 0 });
  }
  window.lpsPagePart = data;
}
