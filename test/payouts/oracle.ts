/** What the oracle knows of one hoster. Amounts are nano-USD, days are days since 1970. */
export interface HosterState {
  /** Shares less refunds by the day of the requests. */
  readonly days: ReadonlyMap<number, bigint>
  /** Everything else: payouts, moves, claw-backs. */
  readonly movements: bigint
  readonly isFrozen: boolean
}

export interface PayoutState {
  readonly batch: string
  readonly hoster: string
  readonly amount: bigint
  readonly state: 'prepared' | 'approved' | 'sending' | 'paid' | 'failed' | 'returned' | 'cancelled'
}

export interface State {
  readonly hosters: ReadonlyMap<string, HosterState>
  readonly payouts: ReadonlyMap<string, PayoutState>
  /** The payer's refunds, by request. */
  readonly refunded: ReadonlySet<string>
  readonly clawbacks: ReadonlyMap<string, { hoster: string; amount: bigint; isDispute: boolean; isReturned: boolean }>
  /** The balance that gets earnings. */
  readonly credit: bigint
}

export type Command =
  | { kind: 'charge'; hoster: string; day: number; nanos: bigint; share: bigint }
  | { kind: 'refund'; request: string; hoster: string; day: number; share: bigint }
  | { kind: 'freeze'; hoster: string; isFrozen: boolean }
  | { kind: 'clawback'; hoster: string; amount: bigint; isDispute: boolean }
  | { kind: 'return'; clawback: string }
  | { kind: 'move'; hoster: string; amount: bigint | null }
  | { kind: 'prepare'; day: number }
  | { kind: 'approve'; batch: string }
  | { kind: 'settle'; batch: string }
  | { kind: 'bank'; payout: string; isPaid: boolean }
  | { kind: 'cancel'; batch: string }

/** What a caller saw, and the names that PostgreSQL drew. */
export interface Seen {
  readonly answer: unknown
  readonly id?: string
  /** Of a prepared batch: payout ids by hoster. */
  readonly payouts?: ReadonlyMap<string, string>
}

export const HOLD_DAYS = 14
export const MINIMUM = 1_000_000_000n
export const DISPUTED = 1_500_000_000n
const CENT = 10_000_000n

const sum = (amounts: Iterable<bigint>) => [...amounts].reduce((a, b) => a + b, 0n)

export function balanceOf({ days, movements }: HosterState): bigint {
  return sum(days.values()) + movements
}

export function heldOf({ days }: HosterState, today: number): bigint {
  return sum([...days].filter(([day]) => day >= today - HOLD_DAYS).map(([, amount]) => amount))
}

/** Carries out one command. Returns the state after it and the answer that the caller must see. */
export function apply(state: State, command: Command, seen: Seen): { state: State; answer: unknown } {
  const hosterOf = (id: string) => state.hosters.get(id)!
  const withHoster = (id: string, change: Partial<HosterState>, base = state): State => ({
    ...base,
    hosters: new Map(base.hosters).set(id, { ...base.hosters.get(id)!, ...change }),
  })
  const moved = (id: string, amount: bigint, base = state) =>
    withHoster(id, { movements: base.hosters.get(id)!.movements + amount }, base)
  const withPayout = (id: string, next: PayoutState['state'], base = state): State => ({
    ...base,
    payouts: new Map(base.payouts).set(id, { ...base.payouts.get(id)!, state: next }),
  })
  const addDay = (id: string, day: number, amount: bigint, base = state) => {
    const { days } = base.hosters.get(id)!
    return withHoster(id, { days: new Map(days).set(day, (days.get(day) ?? 0n) + amount) }, base)
  }

  switch (command.kind) {
    case 'charge':
      return { state: addDay(command.hoster, command.day, command.share), answer: 'charged' }
    case 'refund': {
      if (state.refunded.has(command.request)) return { state, answer: 'duplicate' }
      const after = addDay(command.hoster, command.day, -command.share)
      return { state: { ...after, refunded: new Set(state.refunded).add(command.request) }, answer: 'refunded' }
    }
    case 'freeze': {
      const changed = hosterOf(command.hoster).isFrozen !== command.isFrozen
      return { state: withHoster(command.hoster, { isFrozen: command.isFrozen }), answer: changed }
    }
    case 'clawback': {
      const open = [...state.clawbacks.values()].filter(each => !each.isReturned)
      const ofDispute = sum(open.filter(each => each.isDispute).map(each => each.amount))
      if (command.isDispute && command.amount > DISPUTED - ofDispute) return { state, answer: 'above_dispute' }
      const taken = sum(open.filter(each => each.hoster === command.hoster).map(each => each.amount))
      if (command.amount > sum(hosterOf(command.hoster).days.values()) - taken)
        return { state, answer: 'above_earnings' }
      const { hoster, amount, isDispute } = command
      const clawbacks = new Map(state.clawbacks).set(seen.id!, { hoster, amount, isDispute, isReturned: false })
      return { state: { ...moved(hoster, -amount), clawbacks }, answer: 'taken' }
    }
    case 'return': {
      const found = state.clawbacks.get(command.clawback)!
      if (found.isReturned) return { state, answer: false }
      const clawbacks = new Map(state.clawbacks).set(command.clawback, { ...found, isReturned: true })
      return { state: { ...moved(found.hoster, found.amount), clawbacks }, answer: true }
    }
    case 'move': {
      const hoster = hosterOf(command.hoster)
      const has = balanceOf(hoster)
      const amount = command.amount ?? has
      const refused = hoster.isFrozen ? 'frozen' : amount <= 0n || amount > has ? 'not_enough' : null
      if (refused !== null) return { state, answer: `${refused} ${has > 0n ? has : 0n}` }
      return { state: { ...moved(command.hoster, -amount), credit: state.credit + amount }, answer: `moved ${amount}` }
    }
    case 'prepare': {
      let after = state
      const answer: string[] = []
      for (const [id, hoster] of [...state.hosters].sort(([a], [b]) => (a < b ? -1 : 1))) {
        const payable = balanceOf(hoster) - heldOf(hoster, command.day)
        if (balanceOf(hoster) === 0n) continue
        const amount = (payable / CENT) * CENT
        const verdict = amount < MINIMUM ? 'below_minimum' : hoster.isFrozen ? 'frozen' : 'prepared'
        answer.push(`${id} ${verdict} ${verdict === 'prepared' ? amount : 0n} ${payable}`)
        const payout = seen.payouts?.get(id)
        if (verdict !== 'prepared' || payout === undefined) continue
        after = moved(id, -amount, after)
        const row = { batch: seen.id!, hoster: id, amount, state: 'prepared' as const }
        after = { ...after, payouts: new Map(after.payouts).set(payout, row) }
      }
      return { state: after, answer }
    }
    case 'approve': {
      const payouts = inBatch(state, command.batch)
      const states = new Set(payouts.map(([, payout]) => payout.state))
      if (!states.has('prepared')) {
        return { state, answer: [...states].every(each => each === 'cancelled') ? 'cancelled' : 'approved_before' }
      }
      const after = payouts.reduce(
        (base, [id, payout]) => (payout.state === 'prepared' ? withPayout(id, 'approved', base) : base),
        state,
      )
      return { state: after, answer: 'approved' }
    }
    case 'settle': {
      let after = state
      for (const [id, payout] of inBatch(state, command.batch)) {
        if (payout.state !== 'approved') continue
        const hoster = after.hosters.get(payout.hoster)!
        const isRefused = hoster.isFrozen || balanceOf(hoster) < 0n
        after = isRefused
          ? withPayout(id, 'cancelled', moved(payout.hoster, payout.amount, after))
          : withPayout(id, 'sending', after)
      }
      return { state: after, answer: 'settled' }
    }
    case 'bank': {
      const payout = state.payouts.get(command.payout)!
      if (['prepared', 'approved', 'cancelled'].includes(payout.state)) return { state, answer: 'not_sent' }
      if (command.isPaid) {
        if (payout.state === 'paid') return { state, answer: 'unchanged' }
        // A transfer that came late is taken from the hoster again.
        const base = payout.state === 'sending' ? state : moved(payout.hoster, -payout.amount)
        return { state: withPayout(command.payout, 'paid', base), answer: 'booked' }
      }
      if (payout.state !== 'sending' && payout.state !== 'paid') return { state, answer: 'unchanged' }
      const next = payout.state === 'paid' ? 'returned' : 'failed'
      return { state: withPayout(command.payout, next, moved(payout.hoster, payout.amount)), answer: 'booked' }
    }
    case 'cancel': {
      let after = state
      let count = 0
      for (const [id, payout] of inBatch(state, command.batch)) {
        if (payout.state !== 'prepared' && payout.state !== 'approved') continue
        after = withPayout(id, 'cancelled', moved(payout.hoster, payout.amount, after))
        count++
      }
      return { state: after, answer: count }
    }
  }
}

function inBatch(state: State, batch: string): [string, PayoutState][] {
  return [...state.payouts].filter(([, payout]) => payout.batch === batch)
}
