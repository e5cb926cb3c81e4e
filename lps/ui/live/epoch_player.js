// For the bar of epoch_player.py: leaves the keys to the page. The space bar is a shortcut of Streamlit, which takes one key a
// button; P is the other one.

const PLAY = ".st-key-play button, .st-key-pause button";
const KEYED = `.st-key-back button, ${PLAY}, .st-key-forward button`;

// A button that was clicked keeps the focus, and the space bar would press it besides playing.
function freeKeys(bar) {
  if (!bar || bar.freesKeys) return;
  bar.freesKeys = true;
  bar.addEventListener("click", (event) => event.detail > 0 && document.activeElement?.blur());
  bar.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target.closest(KEYED)) event.preventDefault();
  });
}

function play(event) {
  const isTyping = event.target.closest?.("input:not([type=range]), textarea, select, [contenteditable=true]");
  if (event.key.toLowerCase() !== "p" || event.ctrlKey || event.metaKey || event.altKey || event.repeat || isTyping) return;
  [...document.querySelectorAll(PLAY)].find((button) => button.checkVisibility())?.click();
}

function listenToKeys() {
  if (window.lpsReplayListens) return;
  window.lpsReplayListens = true;
  document.addEventListener("keydown", play);
}

export default function ({ parentElement }) {
  const bar = "[class*=st-key-epoch-player]";
  freeKeys(parentElement.closest(bar) ?? document.querySelector(bar));
  listenToKeys();
}
