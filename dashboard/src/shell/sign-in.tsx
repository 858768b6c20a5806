import { useState } from "preact/hooks";
import { type Problem, signIn } from "../api/client.ts";
import { asProblem } from "../api/use-live.ts";
import { Button } from "../ui/button.tsx";
import { Trouble } from "../ui/state.tsx";
import { Mark } from "./mark.tsx";

/** Asks for a token, which is exchanged for a session cookie and not kept. */
export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setIsBusy(true);
    try {
      await signIn(token.trim());
    } catch (thrown) {
      setProblem(asProblem(thrown));
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
          This node has tokens, so it wants one. Make one on its machine with{" "}
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
          The token is traded for a cookie that no script can read; it is kept nowhere else.
        </p>
      </form>
    </main>
  );
}
