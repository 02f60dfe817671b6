import type { DataAnswer } from '../../base/domain/handoff.ts'
import { hasClientLeft } from '../../base/domain/upstream-failure.ts'
import { bill, billedUsage, type Delivered, type MeasuredTexts } from './bill.ts'
import { measureLongTexts } from './measure-long-texts.ts'
import type { RelayContext, RelayedAnswer } from './relay-whole.ts'

/** Bills an answer that was computed from the input: its input tokens. It is encoded already. */
export function relayData(context: RelayContext, answer: DataAnswer): RelayedAnswer | Promise<RelayedAnswer> {
  const { ticket, job, dialect, signal } = context
  const isGone = hasClientLeft(signal)
  const delivered: Delivered = {
    outcome: isGone ? 'client_gone' : 'served',
    text: '',
    // A client that left before the answer was ready received nothing.
    hasMedia: !isGone,
    reported: answer.usage,
    finishReason: null,
    chargeInputOnly: isGone && context.chargeEarlyDisconnect(),
  }
  const relayed = (measured?: MeasuredTexts): RelayedAnswer => {
    const receipt = bill(ticket, job, answer, measured === undefined ? delivered : { ...delivered, measured })
    const usage = (costNanos: bigint) => billedUsage(answer.usage ?? undefined, receipt, costNanos)
    return { receipt, text: () => '', body: costNanos => dialect.answer.withUsage(answer.body, usage(costNanos)) }
  }
  return measureLongTexts(context.measureText, ticket, job, answer, delivered)?.then(relayed) ?? relayed()
}
