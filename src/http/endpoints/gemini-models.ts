import type { Caller } from '../../base/domain/caller.ts'
import { modelNotAllowed, unknownModel } from '../../base/domain/errors.ts'
import {
  geminiModel,
  geminiModelPage,
  geminiPageQuery,
  listGeminiModels,
  showGeminiModel,
} from '../../wire/api/gemini-models.ts'
import type { ListedModel } from '../../wire/api/models.ts'
import { readQuery } from '../../wire/api/reports.ts'
import { geminiPathParameters } from '../../wire/dialects/gemini/gemini-schema.ts'
import type { Endpoint } from '../endpoint.ts'
import { isAllowed } from './models.ts'

/** GET /v1beta/models and GET /v1beta/models/{model}: the models in the form of Google's API. */
export function geminiModels(deps: {
  readonly models: (caller: Caller) => ReadonlyMap<string, ListedModel>
}): Endpoint[] {
  const common = { method: 'GET', access: 'key' } as const
  return [
    {
      ...common,
      path: '/v1beta/models',
      doc: {
        operationId: 'listGeminiModels',
        tag: 'Models',
        summary: 'List models for Gemini clients',
        description: 'Lists the models that the key may use, in the form of the Gemini API, ordered by id.',
        query: geminiPageQuery,
        response: { contentType: 'application/json', schema: geminiModelPage, description: 'A page of models.' },
      },
      handle: ({ caller, request }) => {
        const { pageSize, pageToken } = readQuery(geminiPageQuery, request.query)
        const allowed = [...deps.models(caller).values()].filter(({ id }) => isAllowed(caller, id))
        return listGeminiModels(allowed, { pageSize, pageToken })
      },
    },
    {
      ...common,
      path: '/v1beta/models/*',
      doc: {
        operationId: 'getGeminiModel',
        tag: 'Models',
        summary: 'Get a model for Gemini clients',
        description: 'Returns one model in the form of the Gemini API. 403 if the key may not use it.',
        openapiPath: '/v1beta/models/{model}',
        pathParameters: geminiPathParameters,
        errors: ['model_not_allowed', 'model_not_found'],
        response: { contentType: 'application/json', schema: geminiModel, description: 'The model.' },
      },
      handle({ caller, request }) {
        const { '*': id } = request.params as { '*': string }
        const listed = deps.models(caller).get(id)
        if (listed === undefined) throw unknownModel(id)
        if (!isAllowed(caller, id)) throw modelNotAllowed(id)
        return showGeminiModel(listed)
      },
    },
  ]
}
