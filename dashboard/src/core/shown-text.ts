/**
 * Shows control characters and characters that change the direction of text as signs. Otherwise an error message or a log line
 * could reverse the text around it. The rule is applied to every text of the page, in one place.
 */
import { options } from "preact";

/** Controls, format characters (which change the direction of text or have no width), and separators of lines. */
const ODD = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
/** Characters of these classes that are shown as they are: tab, newline, and joiners, which are parts of letters and emoji. */
const PLAIN = "\t\n\u200c\u200d";

/** The text with the number of each such character in its place, as `⟨202E⟩`: many fonts lack the pictures of controls. */
export function shownText(text: string): string {
  return text.replace(ODD, (character) => {
    if (PLAIN.includes(character)) return character;
    const code = character.codePointAt(0) ?? 0;
    return `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Applies `shownText` to the texts, titles and labels of all elements that are drawn from now on. */
export function startShownText(): void {
  options.vnode = (vnode) => {
    const { type, props } = vnode as { type: unknown; props: unknown };
    if (type === null && typeof props === "string") (vnode as { props: unknown }).props = shownText(props);
    else if (typeof type === "string") {
      const named = props as Record<string, unknown>;
      for (const name of ["title", "aria-label"])
        if (typeof named[name] === "string") named[name] = shownText(named[name]);
    }
  };
}
