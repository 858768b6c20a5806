import { PageHead } from "../../ui/panel.tsx";

/** The overview. */
export function Overview() {
  return <PageHead title="Overview" />;
}
