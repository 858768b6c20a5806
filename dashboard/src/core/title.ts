import { useEffect } from "preact/hooks";
import { shownText } from "./shown-text.ts";

/** Sets the title of the browser's tab while the component is shown. */
export function useTitle(text: string): void {
  useEffect(() => {
    document.title = `${shownText(text)} · Rondo`;
  }, [text]);
}
