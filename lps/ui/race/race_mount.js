
// On the page: the race goes on while its data grow, its state stands in the address, where it is no place to go back
// to, and the charts of its clock show its place and lead it to an epoch.
export default function (component) {
  const { parentElement, data } = component;
  const root = parentElement.querySelector(".lps-race");
  if (root.shown?.token === data.token) {
    root.shown.race.update(data.race);
    return root.shown.leave;
  }
  root.shown?.end();
  const tell = (state) => {
    const address = new URL(location.href), { searchParams } = address;
    if (!searchParams.has("run")) data.runs.forEach((id) => searchParams.append("run", id));
    ["epoch", "view"].forEach((name) => searchParams.delete(name)); // of links from before race and course were one view
    Object.entries(state).forEach(([name, value]) => searchParams.set(name, value));
    history.replaceState(history.state, "", address);
  };
  const show = (epoch) => {
    (window.lpsPlotClocks ??= new Map()).set(data.clock, epoch);
    for (const graph of window.lpsPlotGraphs ?? []) if (graph.clock === data.clock) graph.followClock?.();
  };
  const save = () => document.querySelector(".st-key-take_race button").click(); // the page has the file (race_view.py)
  const race = lpsRace(root, data.race, { start: data.start, tell, show, save });
  const follow = ({ detail }) => detail.clock === data.clock && race.go(detail.at);
  document.addEventListener("lps-clock", follow);
  const end = () => {
    race.end();
    document.removeEventListener("lps-clock", follow);
  };
  const leave = () => setTimeout(() => { if (!root.isConnected) end(); });
  root.shown = { token: data.token, race, end, leave };
  return leave;
}
