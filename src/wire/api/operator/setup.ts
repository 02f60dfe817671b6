import { z } from 'zod'
import { codedSentences } from '../coded-sentences.ts'

export const setupStepNames = ['provider', 'mail', 'payments', 'backups', 'tls'] as const

/** The answer of `GET /console/api/operator/setup`. */
export const setupReport = z
  .object({
    config_file: z
      .string()
      .describe('The path of the configuration file, on the host of the node that answers. It may not exist yet.'),
    steps: z.array(
      z.object({
        step: z.enum(setupStepNames),
        is_done: z.boolean(),
        detail: z.string().describe('What was found.'),
        detail_codes: codedSentences,
        todo: z.string().nullable().describe('What to do where no page does it; null for a step that is done.'),
        todo_codes: codedSentences,
        snippet: z
          .string()
          .nullable()
          .describe('An example of what to add to the configuration file, if it is done there.'),
        link: z.string().nullable().describe('The page where it is done.'),
        has_test: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'OperatorSetup' })
export type SetupReport = z.infer<typeof setupReport>

export const setupTest = z
  .object({
    is_working: z.boolean(),
    detail: z.string().describe('What the test found.'),
    detail_codes: codedSentences,
  })
  .meta({ id: 'OperatorSetupTest' })
export type SetupTest = z.infer<typeof setupTest>
