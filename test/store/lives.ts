import { onTestFinished } from "vitest";
import type { Store, StoreInfo } from "../../src/store/store.ts";

/** A place where data stays: each call makes the next store over the same data. */
export type MakePlace = () => () => Store;

/** One store after the other over the same data. */
export class Lives {
  readonly #makeStore: () => Store;
  store: Store;
  info: StoreInfo = { fence: { generation: "", epoch: 0 }, uncleanEpoch: 0, key: "", partitions: 0 };

  private constructor(makeStore: () => Store) {
    this.#makeStore = makeStore;
    this.store = makeStore();
  }

  static async begin(makePlace: MakePlace): Promise<Lives> {
    const lives = new Lives(makePlace());
    lives.info = await lives.store.open();
    onTestFinished(() => lives.store.close({ clean: false }));
    return lives;
  }

  async restart(options: { clean: boolean } = { clean: true }): Promise<void> {
    await this.store.close(options);
    this.store = this.#makeStore();
    this.info = await this.store.open();
  }
}
