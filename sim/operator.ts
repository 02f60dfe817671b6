import type { RefundOrder } from '../src/ledger/accounts/refund-request.ts'
import type { DatabaseServer } from './database-server.ts'
import { createLink, createLinkState } from './link.ts'
import type { Oracle } from './oracle.ts'
import type { FaultPlan, RefundPlan } from './plan.ts'
import { createProcess } from './process.ts'
import type { World } from './world.ts'

/** A person at a terminal who refunds requests: never killed, and the link to the database is as bad as the others'. */
export interface Operator {
  giveBack(refund: RefundPlan): void
  /** From now on the link is good. */
  heal(): void
  /** Ordered, and without an answer. */
  readonly refundsLeft: number
}

export function createOperator(
  world: World,
  server: DatabaseServer,
  oracle: Oracle,
  epochMs: number,
  faults: FaultPlan,
): Operator {
  const process = createProcess(world, 'operator', { epochMs, driftPpm: 0 })
  const linkState = { ...createLinkState(), ...faults }
  const link = createLink(world, process, linkState, server, oracle)
  let refundsLeft = 0
  return {
    giveBack,
    heal: () => void Object.assign(linkState, createLinkState()),
    get refundsLeft() {
      return refundsLeft
    },
  }

  function giveBack({ which, share, again }: RefundPlan): void {
    const records = [...oracle.requests.values()]
    const record = records[Math.floor(which * records.length)]
    if (record === undefined) return
    const cost = record.settlement?.costNanos ?? 0n
    const amountOf = (thousandths: number | null) =>
      thousandths === null ? null : (cost * BigInt(thousandths)) / 1_000n || 1n
    const order = { customerId: record.customer.customerId, requestId: record.admission.requestId, reason: 'sorry' }
    refundsLeft++
    void giveBackAs({ ...order, amountNanos: amountOf(share) })
    if (again === null) return
    refundsLeft++
    world.at(world.nowMs + again.afterMs, () => void giveBackAs({ ...order, amountNanos: amountOf(again.share) }))
  }

  /** Ordered until there is an answer. */
  async function giveBackAs(order: RefundOrder): Promise<void> {
    try {
      oracle.refunded(order, await link.refund(order))
      refundsLeft--
    } catch {
      process.scheduler.after(2_000, () => void giveBackAs(order))
    }
  }
}
