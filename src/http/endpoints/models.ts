import { z } from 'zod'
import type { Caller } from '../../base/domain/caller.ts'
import { modelNotAllowed, unknownModel } from '../../base/domain/errors.ts'
import type { PriceLimits } from '../../base/domain/price-limits.ts'
import {
  anthropicModel,
  anthropicModelPage,
  listAnthropicModels,
  showAnthropicModel,
} from '../../wire/api/anthropic-models.ts'
import {
  geminiModel,
  geminiModelPage,
  geminiPageQuery,
  listGeminiModels,
  showGeminiModel,
} from '../../wire/api/gemini-models.ts'
import { type ListedModel, listModels, model, modelList, showModel } from '../../wire/api/models.ts'
import { readQuery } from '../../wire/api/reports.ts'
import { ALIAS_PREFIX } from '../../wire/dialects/messages/messages-request.ts'
import type { Endpoint } from '../endpoint.ts'
import { clientVendorOf } from '../error-format.ts'

interface ModelsDeps {
  /** The available models at the prices of the caller, by id. */
  readonly models: (caller: Caller) => ReadonlyMap<string, ListedModel>
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
        'Lists the models that the key may use, with their prices. With the header `anthropic-version`, the list has the form of Anthropic; with `x-goog-api-key` or `x-goog-api-client`, that of Google, in pages.',
      tag: 'Models',
      response: {
        contentType: 'application/json',
        schema: z
          .union([modelList, anthropicModelPage, geminiModelPage])
          .meta({ examples: modelList.meta()?.examples }),
        description: 'The models that the key may use, with their prices, ordered by id.',
      },
    },
    handle({ caller, request }) {
      const allowed = deps
        .models(caller)
        .values()
        .filter(({ id }) => isAllowed(caller, id))
      const vendor = clientVendorOf(request.headers)
      if (vendor === 'anthropic') return listAnthropicModels(allowed)
      if (vendor === 'openai') return listModels(allowed, deps.priceLimits)
      const { pageSize, pageToken } = readQuery(geminiPageQuery, request.query)
      return listGeminiModels(allowed, { pageSize, pageToken })
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
      description:
        'Returns one model with its prices, its context and its features, in the form of the client as `GET /v1/models`. 403 if the key may not use it.',
      tag: 'Models',
      openapiPath: '/v1/models/{id}',
      pathParameters: z.object({
        id: z.string().meta({ description: 'Id of the model. It may contain slashes.', examples: ['llama-3.3-70b'] }),
      }),
      errors: ['model_not_allowed', 'model_not_found'],
      response: {
        contentType: 'application/json',
        schema: z.union([model, anthropicModel, geminiModel]).meta({ examples: model.meta()?.examples }),
        description: 'The model.',
      },
    },
    handle({ caller, request }) {
      const { '*': name } = request.params as { '*': string }
      const vendor = clientVendorOf(request.headers)
      const id = vendor === 'anthropic' && name.startsWith(ALIAS_PREFIX) ? name.slice(ALIAS_PREFIX.length) : name
      const listed = deps.models(caller).get(id)
      if (!listed) throw unknownModel(id)
      if (!isAllowed(caller, id)) throw modelNotAllowed(id)
      if (vendor === 'anthropic') return showAnthropicModel(listed, name)
      return vendor === 'google' ? showGeminiModel(listed) : showModel(listed, deps.priceLimits)
    },
  }
}

export function isAllowed({ access: { allowedModels } }: Caller, modelId: string): boolean {
  return allowedModels === null || allowedModels.has(modelId)
}
