/** The streams that the code of an execution writes: their names, and the chosen one as text, live and from its start. */
import { useRef, useState } from "preact/hooks";
import { StreamFold } from "../../../../src/sdk/stream-fold.ts";
import type { StreamMark, StreamPiece } from "../../api/shapes.ts";
import { useFollow } from "../../api/use-follow.ts";
import { count } from "../../core/format.ts";
import { choose, usePlace } from "../../core/router.ts";
import { Button } from "../../ui/button.tsx";
import { Trouble } from "../../ui/state.tsx";
import { copy } from "../../ui/toast.tsx";
import { LiveLight, useEndInSight } from "./follow-parts.tsx";

/** The most streams that are listed. */
const LISTED = 500;
/** The most characters of a stream that are shown, the newest. */
const SHOWN = 100_000;

/** A stream of one task. */
interface Listed {
  readonly key: string;
  readonly mark: StreamMark;
}

/** The list of streams and the chosen stream; nothing if there are no streams. */
export function Streams({ path, endedAt }: { readonly path: string; readonly endedAt: number | null }) {
  const [streams, setStreams] = useState<readonly Listed[]>([]);
  const isFull = streams.length > LISTED;
  const { problem } = useFollow<StreamMark>(isFull ? null : { path: `${path}/streams`, endedAt }, (marks) =>
    setStreams((before) => withMarks(before, marks)),
  );
  const { query } = usePlace();
  const shown = streams.slice(0, LISTED);
  const chosen = shown.find(({ key }) => key === query.get("stream")) ?? shown[0];
  if (problem !== null) return <Trouble problem={problem} />;
  if (chosen === undefined) return null;
  const names = new Set(shown.map(({ mark }) => mark.stream));
  return (
    <section class="streams">
      <h3>Streams</h3>
      <div class="row">
        {shown.map(({ key, mark }) => (
          <Button key={key} isPressed={key === chosen.key} onClick={() => choose({ stream: key })}>
            {mark.stream}
            {names.size === shown.length ? "" : ` ${mark.handler} ${mark.task}`}
          </Button>
        ))}
        {isFull ? <span class="muted">The first {count(LISTED)} streams are listed.</span> : null}
      </div>
      <Stream key={chosen.key} path={path} mark={chosen.mark} endedAt={endedAt} />
    </section>
  );
}

function withMarks(before: readonly Listed[], marks: readonly StreamMark[]): readonly Listed[] {
  const all = new Map(before.map((one) => [one.key, one]));
  for (const mark of marks) {
    const key = [mark.stream, mark.phase, mark.handler, mark.task].join("/");
    if (!all.has(key)) all.set(key, { key, mark });
  }
  return all.size === before.length ? before : [...all.values()];
}

function Stream(props: {
  readonly path: string;
  readonly mark: StreamMark;
  readonly endedAt: number | null;
}) {
  const { path, mark, endedAt } = props;
  const { stream, phase, handler, task } = mark;
  const fold = useRef(new StreamFold<unknown>());
  const [chunks, setChunks] = useState<readonly unknown[]>([]);
  const { isOpen, problem } = useFollow<StreamPiece<unknown>>(
    { path: `${path}/streams/${encodeURIComponent(stream)}`, query: { phase, handler, task }, endedAt },
    (pieces) => {
      for (const piece of pieces) fold.current.add(piece);
      setChunks(fold.current.chunks);
    },
  );
  const { hasEnded } = fold.current;
  const text = textOf(chunks);
  const box = useEndInSight(chunks);
  return (
    <>
      <div class="row">
        <span class="muted">
          {count(chunks.length)} {chunks.length === 1 ? "chunk" : "chunks"}
          {text.length > SHOWN ? `, the last ${count(SHOWN)} characters are shown` : ""}
        </span>
        <Button icon="copy" onClick={() => copy(text)}>
          Copy
        </Button>
        <LiveLight isOpen={isOpen && !hasEnded} isOver={endedAt !== null || hasEnded} />
      </div>
      {problem === null ? null : <Trouble problem={problem} />}
      <pre {...box} class="lines log-wrapped" tabIndex={0} aria-label={`Stream ${stream}`}>
        {text.slice(-SHOWN)}
      </pre>
    </>
  );
}

/** Chunks of text as one text; other chunks as JSON, one in a line. */
function textOf(chunks: readonly unknown[]): string {
  if (chunks.every((chunk) => typeof chunk === "string")) return chunks.join("");
  return chunks.map((chunk) => JSON.stringify(chunk)).join("\n");
}
