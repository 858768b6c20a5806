/**
 * Executions by words (search-index.ts), and how far all of them are indexed, whoever wrote them: `e` by their number,
 * `ended` and `ended_e` by their end.
 */
export const SEARCH = String.raw`
  CREATE TABLE search (
    term text COLLATE "C" NOT NULL,
    e    bigint NOT NULL,
    PRIMARY KEY (term, e)
  );

  CREATE TABLE search_cursor (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    e       bigint NOT NULL,
    ended   bigint NOT NULL,
    ended_e bigint NOT NULL
  ) WITH (fillfactor = 50);
  INSERT INTO search_cursor VALUES (true, 0, 0, 0);
`;
