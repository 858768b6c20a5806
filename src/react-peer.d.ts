/** The part of React (18 and later) that `rondo/react` uses. React is an optional peer, so its types are not needed to build Rondo. */
declare module "react" {
  export function useState<State>(initial: State): [State, (next: State) => void];
  export function useEffect(effect: () => (() => void) | undefined, dependencies: readonly unknown[]): void;
}
