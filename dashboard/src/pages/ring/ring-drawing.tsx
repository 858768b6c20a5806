/** The ring as a drawing: nodes in order on a circle, the token beside who has it, lines to who watches. */
import type { Ring, RingNode } from "../../api/shapes.ts";
import { count } from "../../core/format.ts";
import { shortUrl } from "./short-url.ts";

const SIZE = 360;
const MIDDLE = SIZE / 2;
const RADIUS = 118;

interface Point {
  readonly x: number;
  readonly y: number;
}

function pointOf(i: number, many: number, radius: number): Point {
  const angle = (i / many) * 2 * Math.PI - Math.PI / 2;
  return { x: MIDDLE + radius * Math.cos(angle), y: MIDDLE + radius * Math.sin(angle) };
}

/** The drawing. */
export function RingDrawing({ ring }: { readonly ring: Ring }) {
  const { nodes, token } = ring;
  const places = new Map(nodes.map(({ url }, i) => [url, i]));
  const tokenAt = token === null ? undefined : places.get(token.at);
  const words = nodes.map(
    ({ url, agrees, suspect }) =>
      `${shortUrl(url)}${suspect ? " does not answer" : agrees ? "" : " has another map"}`,
  );
  return (
    <svg
      class="ring-drawing"
      viewBox={`0 0 ${SIZE} ${SIZE}`}
      role="img"
      aria-label={`The ring: ${words.join(", ")}`}
    >
      <circle class="ring-line" cx={MIDDLE} cy={MIDDLE} r={RADIUS} />
      {nodes.flatMap((node, i) =>
        node.clockworkers
          .filter((url) => url !== node.url && places.has(url))
          .map((url) => (
            <Watch
              key={`${node.url} ${url}`}
              from={pointOf(places.get(url) ?? 0, nodes.length, RADIUS)}
              to={pointOf(i, nodes.length, RADIUS)}
            />
          )),
      )}
      {nodes.map((node, i) => (
        <NodeMark
          key={node.incarnation}
          node={node}
          isOwn={node.url === ring.url}
          i={i}
          many={nodes.length}
        />
      ))}
      {tokenAt === undefined ? null : <Token at={pointOf(tokenAt, nodes.length, RADIUS)} />}
      <text class="ring-middle" x={MIDDLE} y={MIDDLE - 6} text-anchor="middle">
        {count(nodes.length)} {nodes.length === 1 ? "node" : "nodes"}
      </text>
      <text class="ring-sub" x={MIDDLE} y={MIDDLE + 14} text-anchor="middle">
        {ring.hash === "" ? "no map needed" : `map ${ring.hash.slice(0, 8)}`}
      </text>
    </svg>
  );
}

/** Who watches (`from`) and whose timers (`to`). */
function Watch({ from, to }: { readonly from: Point; readonly to: Point }) {
  const bend = {
    x: (from.x + to.x) / 2 + (MIDDLE - (from.x + to.x) / 2) * 0.45,
    y: (from.y + to.y) / 2 + (MIDDLE - (from.y + to.y) / 2) * 0.45,
  };
  return <path class="ring-watch" d={`M${from.x} ${from.y}Q${bend.x} ${bend.y} ${to.x} ${to.y}`} />;
}

function NodeMark(props: {
  readonly node: RingNode;
  readonly isOwn: boolean;
  readonly i: number;
  readonly many: number;
}) {
  const { node, isOwn, i, many } = props;
  const { x, y } = pointOf(i, many, RADIUS);
  const label = pointOf(i, many, RADIUS + (i === 0 ? 38 : 30));
  const side = label.x > MIDDLE + 10 ? "start" : label.x < MIDDLE - 10 ? "end" : "middle";
  const state = node.suspect ? "bad" : node.agrees ? "ok" : "apart";
  return (
    <g>
      <circle class={`ring-node is-${state}${isOwn ? " is-own" : ""}`} cx={x} cy={y} r={15} />
      <text class="ring-number" x={x} y={y + 4} text-anchor="middle">
        {i + 1}
      </text>
      <text class="ring-name" x={label.x} y={label.y} text-anchor={side}>
        {shortUrl(node.url)}
      </text>
      <text class="ring-sub" x={label.x} y={label.y + 13} text-anchor={side}>
        {count(node.partitions)} {node.partitions === 1 ? "partition" : "partitions"}
      </text>
    </g>
  );
}

function Token({ at }: { readonly at: Point }) {
  const x = at.x + (MIDDLE - at.x) * 0.22;
  const y = at.y + (MIDDLE - at.y) * 0.22;
  return (
    <g class="ring-token">
      <circle cx={x} cy={y} r={7} />
      <text x={x} y={y + 3.5} text-anchor="middle">
        T
      </text>
    </g>
  );
}
