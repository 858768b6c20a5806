/**
 * The part of a commit about what only grows until it is taken: letters, logs, dead letters. A letter whose id is
 * there is left out, without using up a number. A dead letter with `ref` 0 uses up a number and no more: it was
 * stored and cleared by the same commit. Columns as in write-commit.ts.
 */
export const WRITE_RECORDS = String.raw`
  CREATE FUNCTION write_records_1(
    created bigint[],
    m_ref bigint[], m_id text, m_partition int[], m_recipient text, m_body text,
    g_ref bigint[], g_attempt text, g_last_n bigint[], g_body text,
    dc_e bigint[], dc_seq int[], d_ref bigint[], d_seq int[], d_tasks text
  ) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF m_ref IS NOT NULL THEN
      INSERT INTO letters (n, id, partition, recipient, body)
      SELECT nextval('letters_n'), id, partition, recipient, body
      FROM (
        SELECT m.id, m.partition, coalesce(m.recipient, m_recipient) AS recipient, coalesce(m.body, m_body) AS body
        FROM unnest(m_ref, string_to_array(m_id, E'\x1f'), m_partition, string_to_array(m_recipient, E'\x1f'),
          string_to_array(m_body, E'\x1f')) AS m (ref, id, partition, recipient, body)
        WHERE (ref >= 0 OR created[-ref] <> 0) AND NOT EXISTS (SELECT FROM letters l WHERE l.id = m.id)
        OFFSET 0
      ) AS new
      ON CONFLICT (id) DO NOTHING;
    END IF;
    IF g_ref IS NOT NULL THEN
      INSERT INTO logs (e, n, attempt, last_n, body)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, nextval('logs_n'), coalesce(attempt, g_attempt),
        last_n, coalesce(body, g_body)
      FROM unnest(g_ref, string_to_array(g_attempt, E'\x1f'), g_last_n, string_to_array(g_body, E'\x1f'))
        AS g (ref, attempt, last_n, body)
      WHERE ref > 0 OR created[-ref] <> 0;
    END IF;
    IF dc_e IS NOT NULL THEN
      DELETE FROM dead_letters d USING unnest(dc_e, dc_seq) AS c (e, seq) WHERE d.e = c.e AND d.seq >= c.seq;
    END IF;
    IF d_ref IS NOT NULL THEN
      INSERT INTO dead_letters (n, e, seq, project, workflow, tasks)
      SELECT d.n, x.e, d.seq, x.project, x.workflow, d.tasks
      FROM (
        SELECT nextval('dead_letters_n') AS n, CASE WHEN ref < 0 THEN created[-ref] ELSE ref END AS e, seq,
          coalesce(tasks, d_tasks) AS tasks
        FROM unnest(d_ref, d_seq, string_to_array(d_tasks, E'\x1f')) AS d (ref, seq, tasks)
        WHERE ref >= 0 OR created[-ref] <> 0
        OFFSET 0
      ) AS d
      JOIN executions x ON x.e = d.e;
    END IF;
  END
  $$;
`;
