import { bodyOf } from './chat-setup.ts'
import type { Answer } from './talk.ts'
import type { SavedTalk } from './talk-store.ts'

/** A talk as a file: for each model the request that would continue it, so that a program can, and what answers cost. */
export function exportedTalk({ title, changedAt, setup, turns }: SavedTalk) {
  const answers = turns.flatMap(turn => turn.answers)
  const models = new Map(answers.map(({ slot, model }) => [slot, model]))
  return {
    title,
    changed_at: changedAt,
    models: [...models].map(([slot, model]) => ({
      ...bodyOf(setup, { slot, model }, turns, []),
      answers: answers.filter(answer => answer.slot === slot).flatMap(factsOf),
    })),
  }
}

function factsOf({ model, steps }: Answer) {
  return steps.flatMap(({ end }) =>
    end === undefined
      ? []
      : [
          {
            model,
            request_id: end.requestId,
            cost_usd: end.usage?.cost_usd ?? null,
            total_tokens: end.usage?.total_tokens ?? null,
            first_token_ms: end.firstMs === null ? null : Math.round(end.firstMs),
            total_ms: Math.round(end.elapsedMs),
          },
        ],
  )
}
