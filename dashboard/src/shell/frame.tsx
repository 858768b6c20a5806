/** The frame around every page: navigation, theme, palette, help, and notices in a corner. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { may, session, signOut } from "../api/client.ts";
import type { Session } from "../api/shapes.ts";
import { noteActivity, staleness } from "../api/use-live.ts";
import { useCell } from "../core/cell.ts";
import { lostSince } from "../core/connection.ts";
import { clock } from "../core/format.ts";
import { go, usePlace } from "../core/router.ts";
import { Button } from "../ui/button.tsx";
import { Icon, type IconName } from "../ui/icon.tsx";
import { attempt, Toasts } from "../ui/toast.tsx";
import { Help } from "./help.tsx";
import { useKeys } from "./keys.ts";
import { Mark } from "./mark.tsx";
import { isDemo, NAV, navOf } from "./nav.ts";
import { Palette } from "./palette.tsx";
import { nextTheme, themeChoice } from "./theme.ts";

export function Frame({ who, children }: { readonly who: Session; readonly children: ComponentChildren }) {
  const { path } = usePlace();
  const [open, setOpen] = useState<"palette" | "help" | null>(null);
  const [isMenuOpen, setIsMenuOpen] = useState(false);
  const hasDemo = useCell(isDemo);
  const items = NAV.filter(
    ({ isGlobal, needs, isOfDemo }) =>
      (isOfDemo !== true || hasDemo) &&
      (isGlobal !== true || who.project === null) &&
      (needs === undefined || may(needs, who)),
  );
  const here = navOf(path);
  useEffect(() => setIsMenuOpen(false), [path]);
  useActivity();
  useKeys("Everywhere", [
    { keys: "Ctrl-K", label: "Commands", run: () => setOpen("palette"), isAlways: true, isHidden: true },
    { keys: "?", label: "Keyboard shortcuts", run: () => setOpen("help") },
    { keys: "t", label: "Change the theme: system, light, dark", run: nextTheme },
    ...items.map(({ keys, label, path: to }) => ({ keys, label: `Go to ${label}`, run: () => go(to) })),
  ]);
  return (
    <div class="frame">
      <a class="skip" href="#page" onClick={() => document.getElementById("page")?.focus()}>
        Skip to the page
      </a>
      <nav class={`nav${isMenuOpen ? " open" : ""}`} aria-label="Pages">
        <div class="nav-top">
          <a class="brand" href="/">
            <Mark />
            <span>Rondo</span>
          </a>
          <div class="row">
            <Button kind="bare" icon="search" label="Search" onClick={() => setOpen("palette")} />
            <Button
              kind="bare"
              icon={isMenuOpen ? "close" : "menu"}
              label={isMenuOpen ? "Close the menu" : "Menu"}
              onClick={() => setIsMenuOpen(!isMenuOpen)}
            />
          </div>
        </div>
        <button type="button" class="nav-search" onClick={() => setOpen("palette")}>
          <Icon name="search" size={14} />
          <span>Search…</span>
          <kbd>Ctrl K</kbd>
        </button>
        <ul class="nav-list">
          {items.map((item) => (
            <li key={item.path}>
              <a
                href={item.path}
                aria-current={item === here ? "page" : undefined}
                title={`${item.label} (${item.keys})`}
              >
                <Icon name={item.icon} />
                <span>{item.label}</span>
              </a>
            </li>
          ))}
        </ul>
        <Foot who={who} onHelp={() => setOpen("help")} />
      </nav>
      <main id="page" class="page" tabIndex={-1}>
        <Connection />
        {children}
      </main>
      {open === "palette" ? <Palette onClose={() => setOpen(null)} /> : null}
      {open === "help" ? <Help onClose={() => setOpen(null)} /> : null}
      <Toasts />
    </div>
  );
}

/** The shortest time between two notes that the user does something. */
const ACTIVITY_MS = 2_000;

/** Notes what the user does, so that data that did not change for a while is loaded again. */
function useActivity(): void {
  useEffect(() => {
    const stop = new AbortController();
    let last = 0;
    const note = ({ timeStamp }: Event): void => {
      if (timeStamp - last < ACTIVITY_MS) return;
      last = timeStamp;
      noteActivity();
    };
    for (const kind of ["pointermove", "pointerdown", "keydown", "focus"])
      addEventListener(kind, note, { signal: stop.signal, passive: true });
    return () => stop.abort();
  }, []);
}

/** The state of the connection, if it is not as it should be: one line for all pages. */
function Connection() {
  const since = useCell(lostSince);
  const [problem] = useCell(staleness);
  const text =
    since !== null
      ? `Connection lost. Reconnecting… This page shows data of ${clock(since)}.`
      : problem === undefined
        ? null
        : `This page may be out of date: ${problem.message}`;
  return (
    <div class="connection" role="status">
      {text === null ? null : (
        <p class={since === null ? "is-stale" : "is-lost"}>
          <Icon name="warn" size={14} />
          <span>
            {text} {since === null ? <span class="muted">{problem?.hint}</span> : null}
          </span>
        </p>
      )}
    </div>
  );
}

const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } satisfies Record<string, IconName>;

function Foot({ who, onHelp }: { readonly who: Session; readonly onHelp: () => void }) {
  const choice = useCell(themeChoice);
  const needsToken = who.name !== "local";
  return (
    <div class="nav-foot">
      <div
        class="who"
        title={`${who.name}: ${who.role}${who.project === null ? "" : `, project ${who.project}`}`}
      >
        <span class="clip">{who.name}</span>
        <span class="muted">{who.role}</span>
      </div>
      <Button
        kind="bare"
        icon={THEME_ICONS[choice]}
        label={`Theme: ${choice}`}
        keys="t"
        onClick={nextTheme}
      />
      <Button kind="bare" icon="help" label="Keyboard shortcuts" keys="?" onClick={onHelp} />
      {needsToken ? (
        <Button kind="bare" icon="leave" label="Sign out" onClick={() => attempt(signOut)} />
      ) : null}
    </div>
  );
}

/** The session of the user, for actions that depend on the user's role. */
export function useSession(): Session {
  const who = useCell(session);
  if (typeof who === "string") throw new Error("a page is shown to somebody");
  return who;
}
