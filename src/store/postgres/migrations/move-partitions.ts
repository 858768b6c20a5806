/**
 * Membership and ownership, by the database's clock. A node is a member while its lease runs. A partition is taken
 * under the exclusive lock, in ascending order as everywhere: a commit of its former owner is over by then, and the
 * next one meets the new epoch. A node that is no member takes nothing.
 */
export const MOVE_PARTITIONS = String.raw`
  CREATE FUNCTION now_ms_1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
  $$;

  CREATE FUNCTION renew_node_1(p_generation text, p_url text, p_incarnation text, p_next text, p_lease_ms int)
  RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    own text := p_incarnation;
    at bigint := now_ms_1();
  BEGIN
    PERFORM check_generation_1(p_generation);
    UPDATE nodes SET lease_until = at + p_lease_ms WHERE incarnation = own AND lease_until > at;
    IF NOT FOUND THEN
      own := p_next;
      INSERT INTO nodes (incarnation, url, since, lease_until) VALUES (own, p_url, at, at + p_lease_ms);
    END IF;
    DELETE FROM nodes WHERE lease_until <= at;
    RETURN json_build_object(
      'now', at,
      'incarnation', own,
      'leaseUntil', at + p_lease_ms,
      'walPosition', pg_current_wal_insert_lsn() - '0/0',
      'nodes', (
        SELECT json_agg(
          json_build_object('url', url, 'incarnation', incarnation, 'leaseUntil', lease_until, 'since', since)
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

  CREATE FUNCTION take_partitions_1(p_lock int, p_generation text, p_owner text, p_partitions int[])
  RETURNS TABLE (taken int, taken_epoch bigint, taken_unclean_epoch bigint) LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, partition)
    FROM (SELECT unnest(p_partitions) AS partition ORDER BY 1) AS wanted;
    PERFORM check_generation_1(p_generation);
    RETURN QUERY
      UPDATE partitions
      SET epoch = epoch + 1, unclean_epoch = CASE WHEN clean THEN unclean_epoch ELSE epoch END, clean = false,
        owner = p_owner
      WHERE partition = ANY (p_partitions)
        AND (owner IS NULL OR owner = p_owner OR NOT EXISTS (
          SELECT FROM nodes WHERE incarnation = owner AND lease_until > now_ms_1()
        ))
        AND EXISTS (SELECT FROM nodes WHERE incarnation = p_owner AND lease_until > now_ms_1())
      RETURNING partition, epoch, unclean_epoch;
  END
  $$;

  CREATE FUNCTION release_partitions_1(p_lock int, p_owner text, p_partitions int[], p_clean boolean)
  RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, partition)
    FROM (SELECT unnest(p_partitions) AS partition ORDER BY 1) AS own;
    UPDATE partitions SET owner = NULL, clean = p_clean WHERE partition = ANY (p_partitions) AND owner = p_owner;
  END
  $$;

  CREATE FUNCTION leave_1(p_lock int, p_owner text, p_clean boolean) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM release_partitions_1(
      p_lock, p_owner, ARRAY(SELECT partition FROM partitions WHERE owner = p_owner), p_clean
    );
    DELETE FROM nodes WHERE incarnation = p_owner;
  END
  $$;
`;
