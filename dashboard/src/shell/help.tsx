import { Dialog } from "../ui/dialog.tsx";
import { keyGroups } from "./keys.ts";

/** The list of keys that work on this page. */
export function Help({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard" kind="wide" onClose={onClose}>
      <div class="key-map">
        {keyGroups().map(({ title, actions }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {actions.map(({ keys, label }) => (
                <div key={keys}>
                  <dt>
                    {keys.split(" ").map((key, i) => (
                      <kbd key={i}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
