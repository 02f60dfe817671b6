import { z } from 'zod'
import type { Caller } from '../../base/domain/caller.ts'
import { modelNotAllowed, unknownModel } from '../../base/domain/errors.ts'
import type { PriceLimits } from '../../base/domain/price-limits.ts'
import { anthropicModelPage, listAnthropicModels } from '../../wire/api/anthropic-models.ts'
import { type ListedModel, listModels, model, modelList, showModel } from '../../wire/api/models.ts'
import type { Endpoint } from '../endpoint.ts'

interface ModelsDeps {
  /** The available models, by id. */
  readonly models: () => ReadonlyMap<string, ListedModel>
  readonly priceLimits: PriceLimits
}

/** GET /v1/models */
export function modelsList(deps: ModelsDeps): Endpoint {
  return {
    method: 'GET',
    path: '/v1/models',
    access: 'key',
    doc: {
      operationId: 'listModels',
      summary: 'List models',
      description:
        'Lists the models that the key may use, with their prices. With the header `anthropic-version`, the list has the form of Anthropic.',
      tag: 'Models',
      response: {
        contentType: 'application/json',
        schema: z.union([modelList, anthropicModelPage]).meta({ examples: modelList.meta()?.examples }),
        description: 'The models that the key may use, with their prices, ordered by id.',
      },
    },
    handle({ caller, request }) {
      const allowed = deps
        .models()
        .values()
        .filter(({ id }) => isAllowed(caller, id))
      return request.headers['anthropic-version'] === undefined
        ? listModels(allowed, deps.priceLimits)
        : listAnthropicModels(allowed)
    },
  }
}

/**
 * GET /v1/models/{id}. The path is a wildcard because ids such as `meta/llama-3` contain slashes, which not
 * every client encodes.
 */
export function modelShow(deps: ModelsDeps): Endpoint {
  return {
    method: 'GET',
    path: '/v1/models/*',
    access: 'key',
    doc: {
      operationId: 'getModel',
      summary: 'Get a model',
      description: 'Returns one model with its prices, its context and its features. 403 if the key may not use it.',
      tag: 'Models',
      openapiPath: '/v1/models/{id}',
      pathParameters: z.object({
        id: z.string().meta({ description: 'Id of the model. It may contain slashes.', examples: ['llama-3.3-70b'] }),
      }),
      errors: ['model_not_allowed', 'model_not_found'],
      response: { contentType: 'application/json', schema: model, description: 'The model.' },
    },
    handle({ caller, request }) {
      const { '*': id } = request.params as { '*': string }
      const listed = deps.models().get(id)
      if (!listed) throw unknownModel(id)
      if (!isAllowed(caller, id)) throw modelNotAllowed(id)
      return showModel(listed, deps.priceLimits)
    },
  }
}

export function isAllowed({ access: { allowedModels } }: Caller, modelId: string): boolean {
  return allowedModels === null || allowedModels.has(modelId)
}
