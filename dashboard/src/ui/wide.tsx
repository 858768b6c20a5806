import type { ComponentChildren } from "preact";

/** What may be wider than the page: it is scrolled by itself, by the keyboard too. */
export function Wide({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <div class="scroll-x" role="region" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
