import { z } from 'zod'
import { taskClasses } from '../../base/domain/auto-table.ts'
import { nanosOfPicos, usd } from '../../base/domain/money.ts'
import { type AutoNote, autoReasons } from '../../base/domain/routing-note.ts'

/** Why `auto` chose its model, in quotes and receipts. */
export const autoNoteSchema = z
  .object({
    task_class: z.string().describe(`What the request was taken for: ${taskClasses.join(', ')}.`),
    reason: z
      .enum(autoReasons)
      .describe(
        'Why the first model is first. `best_quality`: no model reaches the floor. `conversation`: it has served this conversation. `explored`: drawn at random, as the operator allows.',
      ),
    quality_floor: z
      .number()
      .nullable()
      .describe('The quality, 0 to 1, that `tier` asks for; null if it asks for none.'),
    models: z
      .array(
        z.object({
          model: z.string().describe('Id of the model.'),
          quality: z.number().describe('Predicted quality of its answer, 0 to 1.'),
          expected_cost_usd: z.number().nonnegative().describe('Expected cost at its cheapest server, in USD.'),
          score: z.number().describe('Higher is better. The scale depends on `tier`.'),
        }),
      )
      .describe('The models in the order in which they are tried, at most eight.'),
  })
  .nullable()
  .describe('Why `auto` chose its model; null if it did not choose.')

/** Renders a note. */
export function describeAuto({ taskClass, reason, qualityFloor, models }: AutoNote): z.infer<typeof autoNoteSchema> {
  return {
    task_class: taskClass,
    reason,
    quality_floor: qualityFloor,
    models: models.map(({ modelId, quality, costPicos, score }) => ({
      model: modelId,
      quality,
      expected_cost_usd: usd(nanosOfPicos(BigInt(costPicos))),
      score,
    })),
  }
}
