import { DEMO_MODEL } from '../../base/domain/offer.ts'
import { DemoError } from './demo-error.ts'

/** The only model of the demo upstream: a small n-gram model. Real tokens, real streaming, no understanding. */
export const demoModel = {
  id: DEMO_MODEL,
  contextTokens: 131_072,
  maxOutputTokens: 4_096,
} as const

/** Throws DemoError 404 for any other model. */
export function requireDemoModel(model: string): void {
  if (model === demoModel.id) return
  throw new DemoError(404, `The model \`${model}\` does not exist: the demo upstream has only \`demo\`.`, {
    param: 'model',
    code: 'model_not_found',
  })
}
