/**
 * Tokens per second x billions of parameters that a single answer can reach on any hardware known: wafer-scale chips
 * generate about 2,100 tokens/s with 70 billion parameters. Twice that leaves room for speculative decoding.
 */
const LIMIT = 2 * 2_100 * 70

/**
 * Whether answers arrive faster than a model of the claimed size can generate them. Only a hint on the trust page: it is no
 * evidence, because nobody knows next year's hardware. Null when the name of the model does not tell its size.
 */
export function isImplausiblyFast(modelId: string, tokensPerSecond: number): boolean | null {
  const billions = activeBillions(modelId)
  return billions === null ? null : tokensPerSecond * billions > LIMIT
}

/** The active parameters in a name such as `llama-3.3-70b` or `qwen3-30b-a3b`, in billions. */
function activeBillions(modelId: string): number | null {
  const sizes = [...modelId.toLowerCase().matchAll(/(?<![a-z0-9.])(a?)(\d+(?:\.\d+)?)b(?![a-z0-9])/g)]
  const active = sizes.find(([, a]) => a === 'a') ?? sizes[0]
  return active ? Number(active[2]) : null
}
