/** Small line icons, drawn on a grid of 16. */

const PATHS = {
  overview: "M2 13V8.5M6 13V5M10 13V7.5M14 13V3",
  executions: "M2 4h12M2 8h12M2 12h8",
  workers: "M3 3.5h10v4H3zM3 8.5h10v4H3zM5.5 5.5h.01M5.5 10.5h.01",
  ring: "M8 2.5a5.5 5.5 0 1 0 5.5 5.5M13.5 8A5.5 5.5 0 0 0 11 3.4",
  queues: "M2.5 4.5h3v7h-3zM6.75 4.5h3v7h-3zM11 4.5h2.5v7H11",
  schedules: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M8 5v3.2l2.2 1.3",
  letters: "M2.5 4h11v8.5h-11zM2.5 4.5 8 9l5.5-4.5",
  definitions: "M4 2.5h5.5L12.5 5.5v8h-8.5zM9.5 2.5v3h3M6 8.5h4M6 11h3",
  bell: "M4 11.5V7a4 4 0 0 1 8 0v4.5l1 1H3zM6.8 14.2h2.4",
  settings: "M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M10 3.5v3M6 9.5v3",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.5 10.5l3 3",
  sun: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5",
  system: "M2.5 3.5h11v7h-11zM6 13h4M8 10.5V13",
  close: "M4 4l8 8M12 4l-8 8",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7.5-4.5z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  stop: "M4 4h8v8H4z",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.6h.01",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  right: "M6 3.5 10.5 8 6 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  leave: "M6.5 3h-3.5v10h3.5M6.5 8h7M10.5 5l3 3-3 3",
  signal: "M3 8h3l2-4.5 2 9L12 8h1.5",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9",
  back: "M10 3.5 5.5 8 10 12.5",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  check: "M3 8.5 6.5 12 13 4.5",
  warn: "M8 2.5 14 13H2zM8 6.5v3M8 11.4h.01",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon. The text beside it gives its meaning. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
