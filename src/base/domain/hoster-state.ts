/**
 * The life of a hoster. It applies, is `pending` while the gateway verifies its server, models and prices, is
 * `verified` until the operator approves it, and then `active`: only active hosters receive requests. A paused hoster
 * takes a break by its own choice, a suspended one by the operator's or on proof of a fault. A retired hoster never
 * comes back.
 */
export const hosterStates = ['applied', 'pending', 'verified', 'active', 'paused', 'suspended', 'retired'] as const
export type HosterState = (typeof hosterStates)[number]

/**
 * `hoster`: a member or a key of the hoster. `system`: the gateway itself, such as a passed verification or a quarantine.
 */
export const hosterActors = ['hoster', 'operator', 'system'] as const
export type HosterActor = (typeof hosterActors)[number]

const all = hosterActors
const hosterOrOperator = ['hoster', 'operator'] as const

/** The allowed changes by the state before and after, each with the actors that may make it. */
const transitions: Readonly<Record<HosterState, Partial<Record<HosterState, readonly HosterActor[]>>>> = {
  applied: {
    pending: all,
    active: ['operator'],
    retired: hosterOrOperator,
  },
  pending: {
    verified: ['operator', 'system'],
    active: ['operator'],
    suspended: ['operator'],
    retired: hosterOrOperator,
  },
  verified: {
    // The address or the models changed, so they are verified again.
    pending: all,
    active: ['operator', 'system'],
    suspended: ['operator'],
    retired: hosterOrOperator,
  },
  active: {
    pending: all,
    paused: hosterOrOperator,
    suspended: ['operator', 'system'],
    retired: hosterOrOperator,
  },
  paused: {
    pending: all,
    active: hosterOrOperator,
    suspended: ['operator', 'system'],
    retired: hosterOrOperator,
  },
  // Only the operator ends a suspension. Otherwise a hoster could retire while a fault is looked into.
  suspended: {
    active: ['operator'],
    pending: ['operator'],
    retired: ['operator'],
  },
  retired: {},
}

/** Whether the actor may change a hoster from one state to another. A state never changes to itself. */
export function mayChangeState(from: HosterState, to: HosterState, actor: HosterActor): boolean {
  return transitions[from][to]?.includes(actor) ?? false
}

/** Returns the states that the actor may change a hoster to. */
export function nextStates(from: HosterState, actor: HosterActor): HosterState[] {
  return hosterStates.filter(to => mayChangeState(from, to, actor))
}
