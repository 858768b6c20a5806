/**
 * Nodes say which version of events they read. Those that join without saying so are of the time before, and read 2.
 */
export const ANNOUNCE_VERSIONS = String.raw`
  ALTER TABLE nodes ADD COLUMN reads int NOT NULL DEFAULT 2;

  CREATE FUNCTION renew_node_2(
    p_generation text, p_url text, p_incarnation text, p_next text, p_lease_ms int, p_reads int
  )
  RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    own text := p_incarnation;
    at bigint := now_ms_1();
  BEGIN
    PERFORM check_generation_1(p_generation);
    UPDATE nodes SET lease_until = at + p_lease_ms WHERE incarnation = own AND lease_until > at;
    IF NOT FOUND THEN
      own := p_next;
      INSERT INTO nodes (incarnation, url, since, lease_until, reads)
      VALUES (own, p_url, at, at + p_lease_ms, p_reads);
    END IF;
    DELETE FROM nodes WHERE lease_until <= at;
    RETURN json_build_object(
      'now', at,
      'incarnation', own,
      'leaseUntil', at + p_lease_ms,
      'walPosition', pg_current_wal_insert_lsn() - '0/0',
      'nodes', (
        SELECT json_agg(
          json_build_object(
            'url', url, 'incarnation', incarnation, 'leaseUntil', lease_until, 'since', since, 'reads', reads
          )
          ORDER BY url, incarnation COLLATE "C"
        ) FROM nodes
      ),
      'partitions', (
        SELECT json_agg(
          json_build_object('partition', partition, 'owner', owner, 'epoch', epoch) ORDER BY partition
        ) FROM partitions
      )
    );
  END
  $$;
`;
