import type { ComponentChildren } from "preact";

/** A container for content that may be wider than the page: it scrolls on its own, by the keyboard too. */
export function Wide({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <div class="scroll-x" role="region" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
