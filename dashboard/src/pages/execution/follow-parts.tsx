/** Parts of what is followed live: the log, and streams. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { useCell } from "../../core/cell.ts";
import { lostSince } from "../../core/connection.ts";

/** The distance from the end, in pixels, that still counts as the end. */
const END_PX = 40;

/** Whether followed data is live. */
export function LiveLight(props: {
  readonly isOpen: boolean;
  readonly isPaused?: boolean;
  readonly isOver: boolean;
}) {
  const { isOpen, isPaused = false, isOver } = props;
  const isLost = useCell(lostSince) !== null;
  const text = isLost
    ? "connection lost"
    : isOpen
      ? "live"
      : isPaused
        ? "stopped"
        : isOver
          ? "complete"
          : "reconnecting";
  return <span class={`light ${isOpen && !isLost ? "ok" : ""}`}>{text}</span>;
}

/** Keeps the end of a text box in sight when `content` changes, unless the user has scrolled away. */
export function useEndInSight(content: unknown, isFollowing = true) {
  const ref = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (ref.current !== null && isFollowing && isAtEnd.current)
      ref.current.scrollTop = ref.current.scrollHeight;
  }, [content, isFollowing]);
  const onScroll = ({ currentTarget }: { readonly currentTarget: HTMLPreElement }): void => {
    const { scrollTop, clientHeight, scrollHeight } = currentTarget;
    isAtEnd.current = scrollTop + clientHeight >= scrollHeight - END_PX;
  };
  return { ref, onScroll };
}
