import type { ComponentChildren } from "preact";
import { useTitle } from "../core/title.ts";

/** A framed part of a page with a heading. */
export function Panel({
  title,
  aside,
  children,
  isFlush = false,
  class: more = "",
}: {
  readonly title?: ComponentChildren;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
  /** Whether the content extends to the frame without padding. */
  readonly isFlush?: boolean;
  readonly class?: string;
}) {
  return (
    <section class={`panel ${more}`}>
      {title === undefined ? null : (
        <header class="panel-head">
          <h2>{title}</h2>
          {aside === undefined ? null : <div class="panel-aside">{aside}</div>}
        </header>
      )}
      <div class={isFlush ? "panel-flush" : "panel-body"}>{children}</div>
    </section>
  );
}

/** The head of a page: its name, a line about it, and its actions. */
export function PageHead({
  title,
  about,
  children,
  tab,
}: {
  readonly title: ComponentChildren;
  readonly about?: ComponentChildren;
  readonly children?: ComponentChildren;
  /** The title of the browser's tab, if it is not the title of the page. */
  readonly tab?: string;
}) {
  useTitle(tab ?? (typeof title === "string" ? title : "Rondo"));
  return (
    <header class="page-head">
      <div class="page-title">
        <h1>{title}</h1>
        {about === undefined || about === "" ? null : <p class="muted">{about}</p>}
      </div>
      {children === undefined ? null : <div class="page-actions">{children}</div>}
    </header>
  );
}
