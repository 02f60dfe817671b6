/**
 * What is shown of a server and one of its models, by the attempts of all customers at all nodes:
 *
 * - `working`: its last attempts were answered.
 * - `degraded`: a part of them failed, or it refuses many as busy, or it is kept away from single customers.
 * - `failing`: most of them failed. Requests may still go there.
 * - `ejected`: a breaker keeps requests away from it, for all customers of at least one node.
 * - `disabled`: the operator has switched it off.
 * - `unknown`: no attempt for a day.
 */
export const serverStates = ['working', 'degraded', 'failing', 'ejected', 'disabled', 'unknown'] as const
export type ServerState = (typeof serverStates)[number]
