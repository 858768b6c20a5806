/** Whether a definition has handlers that are scripts. */
export function hasScripts(definition: unknown): boolean {
  const { phases } = definition as { phases?: readonly { handlers?: Record<string, object> }[] };
  return (phases ?? []).some(({ handlers }) => Object.values(handlers ?? {}).some((one) => "script" in one));
}
