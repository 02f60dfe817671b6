import { z } from 'zod'
import { elementAt } from '../../base/runtime/collections.ts'
import { tokensOf } from './count-prompt.ts'
import { demoModel, requireDemoModel } from './demo-model.ts'
import { mapInTurns } from './map-in-turns.ts'
import { parseBody } from './parse-body.ts'
import { textVector } from './text-vector.ts'

const rerankBody = z.looseObject({
  model: z.string(),
  query: z.string(),
  documents: z.array(z.string()).min(1),
  top_n: z.int().min(1).nullish(),
})

/** Returns the body of the answer to POST /v1/rerank: documents that share words with the query come first. Rejects with DemoError. */
export async function answerRerank(body: unknown) {
  const { model, query, documents, top_n } = parseBody(rerankBody, body)
  requireDemoModel(model)
  const wanted = textVector(query)
  const results = await mapInTurns(
    documents,
    document => document.length,
    (document, index) => ({ index, relevance_score: similarity(wanted, textVector(document)) }),
  )
  results.sort((a, b) => b.relevance_score - a.relevance_score)
  const promptTokens = tokensOf([query]) * documents.length + tokensOf(documents)
  return {
    model: demoModel.id,
    object: 'list',
    results: results.slice(0, top_n ?? results.length),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  }
}

function similarity(a: readonly number[], b: readonly number[]): number {
  return Math.round(a.reduce((sum, value, at) => sum + value * elementAt(b, at), 0) * 1e6) / 1e6
}
