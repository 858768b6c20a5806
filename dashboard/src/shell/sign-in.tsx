import { useState } from "preact/hooks";
import { Problem, refusedLink, signIn } from "../api/client.ts";
import { asProblem } from "../api/use-live.ts";
import { useCell } from "../core/cell.ts";
import { Button } from "../ui/button.tsx";
import { Trouble } from "../ui/state.tsx";
import { Mark } from "./mark.tsx";

/** Asks for a token, which is exchanged for a session cookie and not kept. */
export function SignIn() {
  const [token, setToken] = useState("");
  // The page may be drawn before the token of the link is known to be refused.
  const refused = useCell(refusedLink);
  const [failure, setProblem] = useState<Problem | null>(null);
  const problem = failure ?? explained(refused);
  const [isBusy, setIsBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setIsBusy(true);
    try {
      await signIn(token.trim());
    } catch (thrown) {
      setProblem(explained(asProblem(thrown)));
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form
        class="sign-in-box"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Mark />
        <h1>Sign in to Rondo</h1>
        <p class="muted">
          This server requires a token. Create one on the server's machine:{" "}
          <code>rondo token create --role operator</code>.
        </p>
        <label class="field">
          <span>Token</span>
          <input
            type="password"
            name="token"
            autoComplete="current-password"
            autoFocus
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {problem === null ? null : <Trouble problem={problem} />}
        <Button type="submit" kind="main" isBusy={isBusy}>
          Sign in
        </Button>
        <p class="muted small">
          The token is exchanged for a session cookie that scripts cannot read. It is not stored anywhere
          else.
        </p>
      </form>
    </main>
  );
}

/** A refused token, with a hint for people instead of programs. */
function explained(problem: Problem | null): Problem | null {
  if (problem === null || problem.status !== 401) return problem;
  return new Problem({
    status: 401,
    code: problem.code,
    detail: "This token is not valid on this server.",
    hint: "It may be incomplete, revoked, or of another server. Create a new one with rondo token create.",
  });
}
