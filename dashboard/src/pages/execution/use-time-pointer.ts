/**
 * Zooms and moves the time view by mouse: Ctrl and wheel zooms at the pointer, a sideways wheel moves, dragging marks a span to
 * zoom to (or moves, once zoomed; with Shift it marks again), a double click shows everything.
 */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { pan, pieceOf, type Span } from "./time-view.ts";
import type { TimeView } from "./use-time-view.ts";

/** A pointer that moved less than this counts as a click. */
const DRAG_PX = 4;
/** The wheel movement that makes the span e times as long. */
const WHEEL_PX = 300;

/** Positions on the axis: 0 is its begin, 1 its end. */
interface Marked {
  readonly from: number;
  readonly to: number;
}

interface Listening {
  readonly element: HTMLElement;
  readonly view: () => TimeView;
  readonly signal: AbortSignal;
}

/** Listens on the element with the lanes; returns the span that is being marked. */
export function useTimePointer(box: RefObject<HTMLElement | null>, view: TimeView): Marked | null {
  const [marked, setMarked] = useState<Marked | null>(null);
  const latest = useRef(view);
  latest.current = view;
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const stop = new AbortController();
    const listening: Listening = { element, view: () => latest.current, signal: stop.signal };
    followWheel(listening);
    followDrag(listening, setMarked);
    element.addEventListener("dblclick", () => latest.current.reset(), { signal: stop.signal });
    return () => stop.abort();
  }, []);
  return marked;
}

/** The position on the axis of an x coordinate; null if it is outside the axis. */
function placeOf(element: HTMLElement, x: number): number | null {
  const track = element.querySelector(".lane-track")?.getBoundingClientRect();
  return track === undefined || track.width === 0 || x < track.left ? null : (x - track.left) / track.width;
}

function followWheel({ element, view, signal }: Listening): void {
  const turn = (event: WheelEvent): void => {
    const place = placeOf(element, event.clientX);
    if (place === null) return;
    if (event.ctrlKey || event.metaKey) view().zoomBy(Math.exp(event.deltaY / WHEEL_PX), place);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !view().isWhole)
      view().panBy(event.deltaX / element.clientWidth);
    else return;
    event.preventDefault();
  };
  element.addEventListener("wheel", turn, { signal, passive: false });
}

function followDrag({ element, view, signal }: Listening, setMarked: (marked: Marked | null) => void): void {
  let drag: { x: number; place: number; span: Span; marks: boolean; isMoved: boolean } | null = null;
  const begin = (event: PointerEvent): void => {
    const place = placeOf(element, event.clientX);
    // Touch scrolls the page, so it is ignored here.
    if (place === null || event.button !== 0 || event.pointerType === "touch") return;
    const { span, isWhole } = view();
    drag = { x: event.clientX, place, span, marks: isWhole || event.shiftKey, isMoved: false };
  };
  const move = (event: PointerEvent): void => {
    if (drag === null || (!drag.isMoved && Math.abs(event.clientX - drag.x) < DRAG_PX)) return;
    drag.isMoved = true;
    const place = Math.min(1, placeOf(element, event.clientX) ?? 0);
    if (drag.marks) setMarked({ from: drag.place, to: place });
    else view().show(pan(drag.span, drag.place - place));
  };
  const end = (event: PointerEvent): void => {
    if (drag === null) return;
    const { isMoved, marks, span, place } = drag;
    drag = null;
    setMarked(null);
    if (!isMoved) return;
    if (marks) view().show(pieceOf(span, place, Math.min(1, placeOf(element, event.clientX) ?? 0)));
    // The click after a drag is ignored, so that it does not select the lane.
    const swallow = (click: MouseEvent): void => click.stopPropagation();
    addEventListener("click", swallow, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", swallow, { capture: true }));
  };
  element.addEventListener("pointerdown", begin, { signal });
  addEventListener("pointermove", move, { signal });
  addEventListener("pointerup", end, { signal });
  addEventListener("pointercancel", end, { signal });
}
