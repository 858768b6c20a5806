/** The list of tokens and their roles. The text of a token is shown once, when it is created. */
import { useState } from "preact/hooks";
import { change, get } from "../../api/client.ts";
import type { Page, Token } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { useSession } from "../../shell/frame.tsx";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Panel } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { Ago } from "../../ui/time.tsx";
import { attempt, tell } from "../../ui/toast.tsx";
import { Wide } from "../../ui/wide.tsx";

const ROLES = ["viewer", "operator", "admin", "worker"] as const;

/** The list of tokens, with a form that creates one. */
export function Tokens() {
  const { data, problem, reload } = useLive(
    "tokens",
    (signal) => get<Page<Token>>("/v1/tokens", { signal }),
    10_000,
  );
  const [isMaking, setIsMaking] = useState(false);
  const [revoked, setRevoked] = useState<Token | null>(null);
  if (data === null) return problem === null ? <Loading /> : <Trouble problem={problem} onRetry={reload} />;
  return (
    <Panel
      title="Tokens"
      isFlush
      aside={
        <Button icon="plus" onClick={() => setIsMaking(true)}>
          New token
        </Button>
      }
    >
      {data.data.length === 0 ? (
        <Empty title="There is no token: everybody on this machine may do everything.">
          <span>Once there is one, every request over TCP needs one, and so does this page.</span>
        </Empty>
      ) : (
        <TokenTable tokens={data.data} onRevoke={setRevoked} />
      )}
      {isMaking ? (
        <NewToken isFirst={data.data.length === 0} onClose={() => setIsMaking(false)} onDone={reload} />
      ) : null}
      {revoked === null ? null : (
        <Dialog
          title={`Revoke ${revoked.name}`}
          onClose={() => setRevoked(null)}
          foot={
            <>
              <Button onClick={() => setRevoked(null)}>Leave it</Button>
              <Button
                kind="danger"
                onClick={() =>
                  attempt(async () => {
                    await change("DELETE", `/v1/tokens/${encodeURIComponent(revoked.id)}`);
                    tell(`${revoked.name} is no longer accepted.`);
                    setRevoked(null);
                    reload();
                  })
                }
              >
                Revoke
              </Button>
            </>
          }
        >
          <p>
            The token and the sessions that were created with it are no longer accepted; streams that it
            opened end.
          </p>
        </Dialog>
      )}
    </Panel>
  );
}

function TokenTable({
  tokens,
  onRevoke,
}: {
  readonly tokens: readonly Token[];
  readonly onRevoke: (token: Token) => void;
}) {
  return (
    <Wide label="Tokens">
      <table class="rows">
        <thead>
          <tr>
            <th>Name</th>
            <th>Role</th>
            <th>Project</th>
            <th>Made</th>
            <th>Ends</th>
            <th>
              <span class="unseen">Revoke</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((token) => (
            <tr key={token.id}>
              <td>{token.name}</td>
              <td>{token.role}</td>
              <td>{token.project ?? "all"}</td>
              <td>
                <Ago at={token.createdAt} /> <span class="muted">by {token.createdBy}</span>
              </td>
              <td>{token.expiresAt === null ? "never" : <Ago at={token.expiresAt} />}</td>
              <td class="num">
                <Button
                  kind="bare"
                  icon="trash"
                  label={`Revoke ${token.name}`}
                  onClick={() => onRevoke(token)}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function NewToken({
  isFirst,
  onClose,
  onDone,
}: {
  readonly isFirst: boolean;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const who = useSession();
  const [name, setName] = useState("");
  const [role, setRole] = useState<(typeof ROLES)[number]>(isFirst ? "admin" : "operator");
  const [project, setProject] = useState(who.project ?? "");
  const [made, setMade] = useState<string | null>(null);
  const make = (): void =>
    attempt(async () => {
      const { token } = await change<{ token: string }>("POST", "/v1/tokens", {
        name,
        role,
        ...(project === "" ? {} : { project }),
      });
      setMade(token);
      onDone();
    });
  return (
    <Dialog
      title="New token"
      onClose={onClose}
      foot={
        made === null ? (
          <Button
            kind="main"
            whyNot={name === "" ? "It needs a name: the audit log says it." : null}
            onClick={make}
          >
            Make it
          </Button>
        ) : (
          <Button kind="main" onClick={onClose}>
            I have kept it
          </Button>
        )
      }
    >
      {made === null ? (
        <>
          {isFirst ? (
            <p>
              This is the first one: from then on every request over TCP needs a token. Make an admin's first,
              and keep it.
            </p>
          ) : null}
          <label class="field">
            <span>Name: who or what it is for</span>
            <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Role</span>
            <select
              value={role}
              onChange={(event) =>
                setRole(ROLES.find((one) => one === event.currentTarget.value) ?? "viewer")
              }
            >
              {ROLES.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          <label class="field">
            <span>
              Project <span class="muted">all, if left out</span>
            </span>
            <input value={project} onInput={(event) => setProject(event.currentTarget.value)} />
          </label>
        </>
      ) : (
        <MadeToken text={made} />
      )}
    </Dialog>
  );
}

function MadeToken({ text }: { readonly text: string }) {
  return (
    <>
      <p>This is its text. It is shown this once; only its hash is kept.</p>
      <div class="command">
        <code>{text}</code>
        <Button
          kind="bare"
          icon="copy"
          label="Copy the token"
          onClick={() => void navigator.clipboard.writeText(text).then(() => tell("Copied."))}
        />
      </div>
    </>
  );
}
