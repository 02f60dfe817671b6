import type { PriceGroups } from '#api/operator/price-groups.ts'

type ModelRules = PriceGroups['data'][number]['models']

/** Writes rules of models as lines to edit: `gpt-6 = -25 %`, or `llama-4 = 0.2 / 0.6 cache_read 0.02`. */
export function rulesText(models: ModelRules): string {
  return Object.entries(models)
    .map(([id, rule]) => {
      if ('percent' in rule) return `${id} = ${rule.percent} %`
      const { input, output, ...others } = rule.price_per_million_usd
      const parts = Object.entries(others).map(([kind, usd]) => ` ${kind} ${usd}`)
      return `${id} = ${input} / ${output}${parts.join('')}`
    })
    .join('\n')
}

/** Reads what `rulesText` writes. Returns the first line that is no rule as `problem`; the gateway checks the figures. */
export function readRules(text: string): { readonly models: ModelRules } | { readonly problem: string } {
  const models: ModelRules = {}
  for (const line of text.split('\n').map(each => each.trim())) {
    if (line === '') continue
    const [, id, value] = /^(\S+)\s*=\s*(\S.*)$/.exec(line) ?? []
    const [, percent] = /^([+-]?[\d.]+)\s*%$/.exec(value ?? '') ?? []
    const [, input, output, rest] = /^([\d.]+)\s*\/\s*([\d.]+)((?:\s+\w+\s+[\d.]+)*)$/.exec(value ?? '') ?? []
    if (id !== undefined && percent !== undefined) models[id] = { percent }
    else if (id !== undefined && input !== undefined && output !== undefined) {
      const parts = (rest ?? '').matchAll(/(\w+)\s+([\d.]+)/g).map(([, kind, usd]) => [kind, usd])
      models[id] = { price_per_million_usd: { input, output, ...Object.fromEntries(parts) } }
    } else return { problem: line }
  }
  return { models }
}
