"""How the report looks: one style sheet, light and dark by what the reader's system prefers.

Colours are chosen to be read on their grounds. No font, image or script is loaded from anywhere.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --ground: #f4f6f9; --card: #ffffff; --sunken: #f0f3f7; --edge: #dfe4ec;
  --text: #182030; --muted: #566175; --faint: #687386;
  --accent: #2f66d0; --accent-soft: #c5d6f5; --second: #12857a; --grid: #e6eaf0;
  --critical: #bd1e2c; --critical-soft: #fdecee; --warning: #935400; --warning-soft: #fdf3e1;
  --note: #3a5a86; --note-soft: #eaf0f8; --good: #1a7445; --good-soft: #e6f5ec;
  --shadow: 0 1px 2px rgb(20 30 50 / 6%), 0 4px 16px rgb(20 30 50 / 5%);
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0e131a; --card: #161d27; --sunken: #1c2531; --edge: #2a3544;
    --text: #e7ecf3; --muted: #a3b0c2; --faint: #8a98ac;
    --accent: #6f9ff5; --accent-soft: #2b4270; --second: #4fc3b3; --grid: #263140;
    --critical: #ff8a8f; --critical-soft: #3a1c22; --warning: #f3b65a; --warning-soft: #35290f;
    --note: #9cbdf0; --note-soft: #1c2a40; --good: #6fd49b; --good-soft: #153224;
    --shadow: none;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Open Sans",
    Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
h1, h2, h3, p, figure, ul, dl, dd { margin: 0; padding: 0; }
ul { list-style: none; }
code, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .88em; overflow-wrap: anywhere; }

.overline { color: var(--muted); font-size: 13px; letter-spacing: .08em;
  text-transform: uppercase; font-weight: 600; }
h1 { font-size: clamp(26px, 5vw, 38px); line-height: 1.15; letter-spacing: -.02em;
  margin: 4px 0 10px; overflow-wrap: anywhere; }
.meta { color: var(--muted); display: flex; flex-wrap: wrap; gap: 2px 20px; font-size: 15px; }
.pills { display: flex; flex-wrap: wrap; gap: 8px; margin: 20px 0 0; }
.pill { border-radius: 99px; padding: 4px 14px; font-weight: 600; font-size: 14px; }
.critical { --tone: var(--critical); --tone-soft: var(--critical-soft); }
.warning { --tone: var(--warning); --tone-soft: var(--warning-soft); }
.note { --tone: var(--note); --tone-soft: var(--note-soft); }
.good { --tone: var(--good); --tone-soft: var(--good-soft); }
.pill, .badge { color: var(--tone); background: var(--tone-soft); }

section { margin-top: 44px; }
h2 { font-size: 22px; letter-spacing: -.01em; margin-bottom: 16px; overflow-wrap: anywhere; }
h2 small { color: var(--muted); font-weight: 400; font-size: 15px; letter-spacing: 0;
  margin-left: 8px; }

.findings { display: grid; gap: 14px; }
.finding { background: var(--card); border: 1px solid var(--edge);
  border-left: 4px solid var(--tone); border-radius: 10px; padding: 16px 20px 18px;
  box-shadow: var(--shadow); }
.finding header { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 10px;
  color: var(--muted); font-size: 14px; }
.badge { border-radius: 5px; padding: 1px 8px; font-weight: 700; font-size: 12px;
  text-transform: uppercase; letter-spacing: .05em; }
.finding h3 { font-size: 17px; line-height: 1.4; margin: 8px 0 6px; font-weight: 600;
  overflow-wrap: anywhere; }
.finding dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 14px;
  font-size: 15px; }
.finding dt { color: var(--faint); }
.finding dd { color: var(--muted); }
.finding dd.advice { color: var(--text); }
.places { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 12px; }
.places li { background: var(--sunken); border-radius: 6px; padding: 2px 9px; font-size: 13px;
  color: var(--muted); overflow-wrap: anywhere; }
.places code { color: var(--text); font-weight: 600; }

.tiles { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 1px;
  background: var(--edge); border: 1px solid var(--edge); border-radius: 10px; overflow: hidden;
  box-shadow: var(--shadow); margin-bottom: 16px; }
.tile { background: var(--card); padding: 12px 16px 14px; }
.tile span { display: block; color: var(--muted); font-size: 13px; }
.tile b { display: block; font-size: 21px; line-height: 1.3; letter-spacing: -.01em;
  font-weight: 600; }
.tile i { font-style: normal; color: var(--faint); font-size: 13px; }

.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
.chart { background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
  padding: 16px 20px 18px; box-shadow: var(--shadow); min-width: 0; }
.chart.wide { grid-column: 1 / -1; }
.chart.wide .plot { grid-template-columns: 76px 1fr; }
.chart figcaption { margin-bottom: 14px; }
.chart figcaption b { font-size: 15px; display: block; font-weight: 600; }
.chart figcaption span { color: var(--muted); font-size: 13px; display: block; }
.plot { display: grid; grid-template-columns: minmax(52px, max-content) 1fr; column-gap: 8px; }
.plot .ys { display: flex; flex-direction: column-reverse; justify-content: space-between;
  text-align: right; font-size: 12px; line-height: 1; color: var(--faint); margin: -6px 0; }
.plot svg { display: block; width: 100%; height: 150px; overflow: visible; }
.plot.tall svg { height: 190px; }
.plot.low svg { height: 84px; }
.plot .xs { grid-column: 2; position: relative; height: 18px; margin-top: 6px; font-size: 12px;
  color: var(--faint); }
.plot .xs span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.plot .xs span.start { transform: none; }
.plot .xs span.end { transform: translateX(-100%); }
.plot + .plot { margin-top: 12px; }
.grid { stroke: var(--grid); stroke-width: 1; vector-effect: non-scaling-stroke; }
.bar { fill: var(--accent); }
.bar.second { fill: var(--second); }
.bar:hover { opacity: .75; }
.area { fill: var(--accent-soft); stroke: none; opacity: .7; }
.curve { fill: none; stroke: var(--accent); stroke-width: 2; vector-effect: non-scaling-stroke; }
.diagonal { stroke: var(--faint); stroke-width: 1; stroke-dasharray: 4 4;
  vector-effect: non-scaling-stroke; }
.bars { display: grid; grid-template-columns: minmax(48px, max-content) 1fr max-content;
  gap: 7px 12px; align-items: center; font-size: 14px; }
.bars .label { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; max-width: 16ch; }
.bars .value { text-align: right; color: var(--muted); white-space: nowrap; }
.bars svg { display: block; width: 100%; height: 12px; }
.track { fill: var(--sunken); }
.toned { fill: var(--tone); }
.empty { color: var(--muted); font-size: 14px; }

details { background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
  margin-top: 12px; box-shadow: var(--shadow); }
summary { cursor: pointer; padding: 11px 20px; font-weight: 600; font-size: 15px; }
summary span { color: var(--muted); font-weight: 400; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px;
  border-radius: 10px; }
.scroll { overflow-x: auto; padding: 0 20px 14px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--muted); font-weight: 600; font-size: 13px; }
th, td { padding: 6px 18px 6px 0; border-bottom: 1px solid var(--grid); white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; }
td.text { white-space: normal; min-width: 16ch; overflow-wrap: anywhere; }
footer { margin-top: 48px; color: var(--muted); font-size: 14px; max-width: 75ch; }
footer p + p { margin-top: 8px; }

@media (max-width: 720px) {
  main { padding: 24px 16px 48px; }
  .charts { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .finding dl { grid-template-columns: 1fr; gap: 0; }
  .finding dd + dt { margin-top: 6px; }
  .chart, .finding { padding: 14px 16px 16px; }
  .tile b { font-size: 19px; }
}
@media print {
  body { background: #fff; }
  .finding, .chart, details { break-inside: avoid; box-shadow: none; }
}
"""
