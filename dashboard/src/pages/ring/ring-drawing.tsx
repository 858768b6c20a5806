/**
 * A drawing of the ring: nodes in order on a circle, the token at its node, arrows from watching nodes to the nodes whose
 * timers they watch, and around each node the rest of its lease, which is full after every renewal.
 */
import type { Ring, RingNode } from "../../api/shapes.ts";
import { count } from "../../core/format.ts";
import { isSilent, useLeaseLeft } from "./lease-left.ts";
import { shortUrl } from "./short-url.ts";

const WIDTH = 480;
const HEIGHT = 340;
const CENTRE: Point = { x: WIDTH / 2, y: HEIGHT / 2 + 4 };
const RADIUS = 108;
const NODE = 15;
const LEASE = 21;
const LEASE_LENGTH = 2 * Math.PI * LEASE;

interface Point {
  readonly x: number;
  readonly y: number;
}

function pointOf(i: number, many: number, radius: number): Point {
  const angle = (i / many) * 2 * Math.PI - Math.PI / 2;
  return { x: CENTRE.x + radius * Math.cos(angle), y: CENTRE.y + radius * Math.sin(angle) };
}

export function RingDrawing({ ring }: { readonly ring: Ring }) {
  const { nodes, token } = ring;
  const places = new Map(nodes.map(({ url }, i) => [url, i]));
  const tokenAt = token === null ? undefined : places.get(token.at);
  const words = nodes.map(
    (node, i) =>
      `${shortUrl(node.url)}${i === tokenAt ? " has the token" : ""}${isSilent(ring, node) ? " does not answer" : node.agrees ? "" : " has another map"}`,
  );
  const watches = nodes.flatMap((node, i) =>
    node.clockworkers.flatMap((url) => {
      const watcher = places.get(url);
      return watcher === undefined || watcher === i ? [] : [{ from: watcher, to: i }];
    }),
  );
  return (
    <figure class="ring-figure">
      <svg
        class="ring-drawing"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`The ring: ${words.join(", ")}`}
      >
        <defs>
          <marker
            id="ring-arrow"
            viewBox="0 0 6 6"
            refX="5"
            refY="3"
            markerWidth="6"
            markerHeight="6"
            orient="auto"
          >
            <path class="ring-arrow" d="M0 0 6 3 0 6z" />
          </marker>
        </defs>
        <circle class="ring-line" cx={CENTRE.x} cy={CENTRE.y} r={RADIUS} />
        {watches.map(({ from, to }) => (
          <Watch
            key={`${from} ${to}`}
            from={pointOf(from, nodes.length, RADIUS)}
            to={pointOf(to, nodes.length, RADIUS)}
          />
        ))}
        {nodes.map((node, i) => (
          <NodeMark
            key={node.incarnation}
            node={node}
            isOwn={node.url === ring.url}
            isAway={isSilent(ring, node)}
            i={i}
            many={nodes.length}
          />
        ))}
        {tokenAt === undefined ? null : <Token at={pointOf(tokenAt, nodes.length, RADIUS)} />}
        <text class="ring-middle" x={CENTRE.x} y={CENTRE.y - 4} text-anchor="middle">
          {count(nodes.length)} {nodes.length === 1 ? "node" : "nodes"}
        </text>
        <text class="ring-sub" x={CENTRE.x} y={CENTRE.y + 14} text-anchor="middle">
          {ring.hash === "" ? "no map needed" : `map ${ring.hash.slice(0, 8)}`}
        </text>
      </svg>
      {nodes.length === 1 ? null : (
        <figcaption class="ring-legend">
          <span>
            <i class="is-token" />
            token
          </span>
          <span>
            <i class="is-lease" />
            lease left
          </span>
          <span>
            <i class="is-watch" />
            watches its timers
          </span>
        </figcaption>
      )}
    </figure>
  );
}

/** How far an arrow bends to its right, so that it passes the text in the middle, and the arrow of the other direction. */
const BEND = 0.35;

/** A curved arrow from a watching node (`from`) to the node whose timers it watches (`to`). */
function Watch({ from, to }: { readonly from: Point; readonly to: Point }) {
  const middle = midway(from, to);
  const bend = { x: middle.x - (to.y - from.y) * BEND, y: middle.y + (to.x - from.x) * BEND };
  const begin = rimOf(from, bend);
  const end = rimOf(to, bend);
  return (
    <path
      class="ring-watch"
      marker-end="url(#ring-arrow)"
      d={`M${begin.x} ${begin.y}Q${bend.x} ${bend.y} ${end.x} ${end.y}`}
    />
  );
}

function midway(a: Point, b: Point): Point {
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}

function towards(from: Point, to: Point, share: number): Point {
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
}

/** The point at which a line leaves a node's circle. */
function rimOf(node: Point, other: Point): Point {
  const length = Math.hypot(other.x - node.x, other.y - node.y);
  return length === 0 ? node : towards(node, other, (LEASE + 5) / length);
}

function NodeMark(props: {
  readonly node: RingNode;
  readonly isOwn: boolean;
  readonly isAway: boolean;
  readonly i: number;
  readonly many: number;
}) {
  const { node, isOwn, isAway, i, many } = props;
  const { x, y } = pointOf(i, many, RADIUS);
  const isAbove = y < CENTRE.y - RADIUS + 10;
  const label = pointOf(i, many, RADIUS + (isAbove ? 44 : 32));
  const side = label.x > CENTRE.x + 10 ? "start" : label.x < CENTRE.x - 10 ? "end" : "middle";
  const state = isAway ? "bad" : node.agrees ? "ok" : "apart";
  return (
    <g>
      <Lease until={node.leaseUntil} isAway={isAway} at={{ x, y }} />
      <circle class={`ring-node is-${state}${isOwn ? " is-own" : ""}`} cx={x} cy={y} r={NODE} />
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

/** The rest of a lease, as an arc. */
function Lease(props: { readonly until: number | null; readonly isAway: boolean; readonly at: Point }) {
  const { until, isAway, at } = props;
  const left = useLeaseLeft(until, isAway);
  if (left === null) return null;
  return (
    <circle
      class={`ring-lease is-${left.tone}`}
      cx={at.x}
      cy={at.y}
      r={LEASE}
      stroke-dasharray={`${left.share * LEASE_LENGTH} ${LEASE_LENGTH}`}
      transform={`rotate(-90 ${at.x} ${at.y})`}
    />
  );
}

function Token({ at }: { readonly at: Point }) {
  const { x, y } = towards(at, CENTRE, 0.34);
  return (
    <g class="ring-token">
      <circle cx={x} cy={y} r={8} />
      <text x={x} y={y + 3.5} text-anchor="middle">
        T
      </text>
    </g>
  );
}
