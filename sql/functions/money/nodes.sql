-- Makes a node alive. A second call with the same id changes nothing, even when the node has died since.
CREATE OR REPLACE FUNCTION register_node(p_node uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO node (node_id) VALUES (p_node) ON CONFLICT (node_id) DO NOTHING;
  IF FOUND THEN
    INSERT INTO node_heartbeat (node_id, heartbeats) VALUES (p_node, 0);
  END IF;
END $$;

-- Declares nodes dead. Where `p_heartbeats` has a number, only if the node has sent exactly that many heartbeats: the caller has
-- seen this number for so long that the node must be dead. Where it has NULL, the caller knows of the death in another way. Locks
-- the heartbeats, then the nodes, both in the order of node_id. The latter waits for admissions of these nodes in flight, so that
-- no lease is granted after the death: see lock_live_node.
CREATE OR REPLACE FUNCTION declare_nodes_dead(p_nodes uuid[], p_heartbeats integer[]) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
  v_dead uuid[];
BEGIN
  -- The condition is on the locked row alone: after a wait for a heartbeat it is checked again, on the new row.
  v_dead := ARRAY(
    SELECT h.node_id FROM node_heartbeat h JOIN unnest(p_nodes, p_heartbeats) AS seen(node_id, heartbeats) ON h.node_id = seen.node_id
    WHERE h.heartbeats = coalesce(seen.heartbeats, h.heartbeats)
    ORDER BY h.node_id FOR UPDATE OF h);
  DELETE FROM node_heartbeat WHERE node_id = ANY (v_dead);
  PERFORM FROM node WHERE node_id = ANY (v_dead) ORDER BY node_id FOR UPDATE;
  UPDATE node SET state = 'dead' WHERE node_id = ANY (v_dead);
END $$;

-- Removes the dead nodes that have no lease left. No lease of a dead node is granted any more.
CREATE OR REPLACE FUNCTION forget_dead_nodes() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM node n WHERE n.state = 'dead' AND NOT EXISTS (SELECT FROM lease l WHERE l.node_id = n.node_id);
END $$;
