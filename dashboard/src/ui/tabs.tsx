import type { ComponentChildren } from "preact";
import { choose } from "../core/router.ts";

export interface Tab {
  readonly id: string;
  readonly label: ComponentChildren;
}

/** Tabs whose selection is in the address, as `name`; the first tab is the default. */
export function Tabs({
  name,
  tabs,
  chosen,
  label,
}: {
  readonly name: string;
  readonly tabs: readonly Tab[];
  readonly chosen: string;
  readonly label: string;
}) {
  const pick = (i: number): void => {
    const tab = tabs[(i + tabs.length) % tabs.length];
    if (tab === undefined) return;
    choose({ [name]: tab.id === tabs[0]?.id ? null : tab.id });
    document.getElementById(`${name}-${tab.id}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label}>
      {tabs.map((tab, i) => (
        <button
          key={tab.id}
          id={`${name}-${tab.id}`}
          type="button"
          role="tab"
          class="tab"
          aria-selected={tab.id === chosen}
          tabIndex={tab.id === chosen ? 0 : -1}
          onClick={() => pick(i)}
          onKeyDown={(event) => {
            if (event.key === "ArrowRight") pick(i + 1);
            else if (event.key === "ArrowLeft") pick(i - 1);
          }}
        >
          {tab.label}
        </button>
      ))}
    </div>
  );
}

/** The content of the selected tab. */
export function TabPanel({
  name,
  chosen,
  children,
}: {
  readonly name: string;
  readonly chosen: string;
  readonly children: ComponentChildren;
}) {
  return (
    <div role="tabpanel" class="tab-body" aria-labelledby={`${name}-${chosen}`}>
      {children}
    </div>
  );
}
