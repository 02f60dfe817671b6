import { z } from 'zod'
import { serves } from '../../base/domain/offer.ts'
import type { ListedModel } from './models.ts'

const example = {
  name: 'models/llama-3.3-70b',
  displayName: 'llama-3.3-70b',
  inputTokenLimit: 131072,
  outputTokenLimit: 8192,
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
}

/** Google's model object. */
export const geminiModel = z
  .object({
    name: z.string().describe('`models/` and the id of the model, which may contain slashes.'),
    displayName: z.string(),
    inputTokenLimit: z.int().positive().describe('Largest context of any server that offers the model.'),
    outputTokenLimit: z.int().positive().describe('Largest number of output tokens.'),
    supportedGenerationMethods: z.array(z.string()),
  })
  .meta({ id: 'GeminiModel', examples: [example] })

export const geminiModelPage = z
  .object({
    models: z.array(geminiModel),
    nextPageToken: z.string().optional().describe('Send it as `pageToken` to get the next page.'),
  })
  .meta({ id: 'GeminiModelPage', examples: [{ models: [example] }] })

interface PageQuery {
  readonly pageSize: number
  /** The last id of the page before; undefined for the first page. */
  readonly pageToken: string | undefined
}

/** Returns one page of the models as Google lists them, ordered by id. */
export function listGeminiModels(
  listed: Iterable<ListedModel>,
  { pageSize, pageToken }: PageQuery,
): z.infer<typeof geminiModelPage> {
  const rest = [...listed]
    .filter(({ id }) => pageToken === undefined || id > pageToken)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
  const page = rest.slice(0, pageSize)
  const last = page.at(-1)
  return { models: page.map(showGeminiModel), ...(rest.length > pageSize && last && { nextPageToken: last.id }) }
}

export function showGeminiModel(listed: ListedModel): z.infer<typeof geminiModel> {
  const { id, contextTokens, maxOutputTokens } = listed
  return {
    name: `models/${id}`,
    displayName: id,
    inputTokenLimit: contextTokens,
    outputTokenLimit: maxOutputTokens,
    supportedGenerationMethods: [
      ...(serves(listed, 'chat') ? chatMethods : []),
      ...(serves(listed, 'embeddings') ? embeddingsMethods : []),
    ],
  }
}

const chatMethods = ['generateContent', 'streamGenerateContent', 'countTokens']
const embeddingsMethods = ['embedContent', 'batchEmbedContents']
