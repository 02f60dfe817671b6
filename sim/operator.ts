import type { RefundOrder } from '../src/money/ledger/accounts/refund-request.ts'
import type { DatabaseServer } from './database-server.ts'
import { createLink, createLinkState } from './link.ts'
import type { Oracle } from './oracle.ts'
import type { FaultPlan, RefundPlan } from './plan.ts'
import { createProcess } from './process.ts'
import type { World } from './world.ts'

/** An operator that refunds requests from a terminal. It is never killed. Its link to the database is as unreliable as the others. */
export interface Operator {
  orderRefund(refund: RefundPlan): void
  /** Makes the link reliable. */
  heal(): void
  /** Number of refund orders without an answer. */
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
    orderRefund,
    heal: () => void Object.assign(linkState, createLinkState()),
    get refundsLeft() {
      return refundsLeft
    },
  }

  function orderRefund({ which, share, again }: RefundPlan): void {
    const records = [...oracle.requests.values()]
    const record = records[Math.floor(which * records.length)]
    if (record === undefined) return
    const cost = record.settlement?.costNanos ?? 0n
    const amountOf = (thousandths: number | null) =>
      thousandths === null ? null : (cost * BigInt(thousandths)) / 1_000n || 1n
    const order = { customerId: record.customer.customerId, requestId: record.admission.requestId, reason: 'sorry' }
    refundsLeft++
    void orderUntilAnswered({ ...order, amountNanos: amountOf(share) })
    if (again === null) return
    refundsLeft++
    world.at(
      world.nowMs + again.afterMs,
      () => void orderUntilAnswered({ ...order, amountNanos: amountOf(again.share) }),
    )
  }

  /** Repeats the order until an answer arrives. */
  async function orderUntilAnswered(order: RefundOrder): Promise<void> {
    try {
      oracle.refunded(order, await link.refund(order))
      refundsLeft--
    } catch {
      process.scheduler.after(2_000, () => void orderUntilAnswered(order))
    }
  }
}
