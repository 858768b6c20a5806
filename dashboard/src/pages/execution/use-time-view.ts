/** The visible span of time, which is in the address as `from` and `to`; it is moved by wheel, drag and keys. */
import { useEffect, useRef, useState } from "preact/hooks";
import { choose } from "../../core/router.ts";
import { useKeys } from "../../shell/keys.ts";
import { useExecutionPlace } from "./place.ts";
import { pan, type Span, within, zoom } from "./time-view.ts";

/** How long after the last move the address is updated. */
const SETTLED_MS = 160;
const STEP = 1.6;
const PAN = 0.25;

export interface TimeView {
  /** The visible span of time. */
  readonly span: Span;
  readonly isWhole: boolean;
  readonly zoomBy: (by: number, place?: number) => void;
  readonly panBy: (share: number) => void;
  readonly reset: () => void;
  readonly show: (span: Span) => void;
}

/** The time view and its keys. `whole` is all the time of the execution. */
export function useTimeView(whole: Span): TimeView {
  const { span: chosen } = useExecutionPlace();
  // While the user moves the view, it is ahead of the address.
  const [moving, setMoving] = useState<{ span: Span | null } | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const current = moving === null ? chosen : moving.span;
  const span = current ?? whole;
  const show = (next: Span | null): void => {
    const piece = next === null ? null : within(next, whole);
    setMoving({ span: piece });
    if (timer.current !== null) clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setMoving(null);
      choose({
        from: piece === null ? null : String(piece.from),
        to: piece === null ? null : String(piece.to),
      });
    }, SETTLED_MS);
  };
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current);
    },
    [],
  );
  const zoomBy = (by: number, place?: number): void => show(zoom(span, by, place));
  const panBy = (share: number): void => show(pan(span, share));
  useKeys("Execution", [
    { keys: "+", label: "Zoom in", run: () => zoomBy(1 / STEP) },
    { keys: "-", label: "Zoom out", run: () => zoomBy(STEP) },
    { keys: ",", label: "Earlier in the timeline", run: () => panBy(-PAN) },
    { keys: ".", label: "Later in the timeline", run: () => panBy(PAN) },
    { keys: "z", label: "Reset the zoom", run: () => show(null) },
  ]);
  return { span, isWhole: current === null, zoomBy, panBy, reset: () => show(null), show };
}
