/**
 * Known open weights, by the repository on Hugging Face that is their reference, with other ids that servers give them.
 * Ids are compared without their case; the name of a repository also counts without its owner.
 */
const openModels: Readonly<Record<string, readonly string[]>> = {
  'BAAI/bge-m3': ['bge-m3:567m'],
  'BAAI/bge-reranker-v2-m3': [],
  'CohereLabs/c4ai-command-r-08-2024': ['command-r', 'command-r:35b'],
  'deepseek-ai/DeepSeek-R1': ['deepseek-r1:671b'],
  'deepseek-ai/DeepSeek-R1-Distill-Llama-70B': ['deepseek-r1:70b'],
  'deepseek-ai/DeepSeek-R1-Distill-Qwen-14B': ['deepseek-r1:14b'],
  'deepseek-ai/DeepSeek-R1-Distill-Qwen-32B': ['deepseek-r1:32b'],
  'deepseek-ai/DeepSeek-V3': ['deepseek-v3:671b'],
  'google/gemma-2-27b-it': ['gemma2:27b'],
  'google/gemma-2-9b-it': ['gemma2:9b'],
  'google/gemma-3-12b-it': ['gemma3:12b'],
  'google/gemma-3-1b-it': ['gemma3:1b'],
  'google/gemma-3-27b-it': ['gemma3:27b'],
  'google/gemma-3-4b-it': ['gemma3:4b'],
  'ibm-granite/granite-3.3-8b-instruct': ['granite3.3:8b'],
  'intfloat/multilingual-e5-large': [],
  'meta-llama/Llama-3.1-405B-Instruct': ['llama3.1:405b', 'llama-3.1-405b'],
  'meta-llama/Llama-3.1-70B-Instruct': ['llama3.1:70b', 'llama-3.1-70b'],
  'meta-llama/Llama-3.1-8B-Instruct': ['llama3.1:8b', 'llama-3.1-8b', 'meta-llama-3.1-8b-instruct'],
  'meta-llama/Llama-3.2-1B-Instruct': ['llama3.2:1b', 'llama-3.2-1b'],
  'meta-llama/Llama-3.2-3B-Instruct': ['llama3.2:3b', 'llama-3.2-3b'],
  'meta-llama/Llama-3.3-70B-Instruct': ['llama3.3:70b', 'llama-3.3-70b'],
  'microsoft/Phi-3.5-mini-instruct': ['phi3.5:3.8b'],
  'microsoft/phi-4': ['phi4:14b'],
  'mistralai/Mistral-7B-Instruct-v0.3': ['mistral:7b'],
  'mistralai/Mistral-Nemo-Instruct-2407': ['mistral-nemo:12b'],
  'mistralai/Mistral-Small-24B-Instruct-2501': ['mistral-small:24b'],
  'mistralai/Mixtral-8x22B-Instruct-v0.1': ['mixtral:8x22b'],
  'mistralai/Mixtral-8x7B-Instruct-v0.1': ['mixtral:8x7b'],
  'mixedbread-ai/mxbai-embed-large-v1': ['mxbai-embed-large:335m'],
  'nomic-ai/nomic-embed-text-v1.5': ['nomic-embed-text'],
  'openai/gpt-oss-120b': ['gpt-oss:120b'],
  'openai/gpt-oss-20b': ['gpt-oss:20b'],
  'Qwen/QwQ-32B': ['qwq:32b'],
  'Qwen/Qwen2.5-0.5B-Instruct': ['qwen2.5:0.5b'],
  'Qwen/Qwen2.5-14B-Instruct': ['qwen2.5:14b'],
  'Qwen/Qwen2.5-32B-Instruct': ['qwen2.5:32b'],
  'Qwen/Qwen2.5-72B-Instruct': ['qwen2.5:72b'],
  'Qwen/Qwen2.5-7B-Instruct': ['qwen2.5:7b'],
  'Qwen/Qwen2.5-Coder-32B-Instruct': ['qwen2.5-coder:32b'],
  'Qwen/Qwen2.5-Coder-7B-Instruct': ['qwen2.5-coder:7b'],
  'Qwen/Qwen3-0.6B': ['qwen3:0.6b'],
  'Qwen/Qwen3-14B': ['qwen3:14b'],
  'Qwen/Qwen3-30B-A3B': ['qwen3:30b'],
  'Qwen/Qwen3-32B': ['qwen3:32b'],
  'Qwen/Qwen3-4B': ['qwen3:4b'],
  'Qwen/Qwen3-8B': ['qwen3:8b'],
  'Qwen/Qwen3-235B-A22B': ['qwen3:235b'],
}

const references: ReadonlyMap<string, string> = new Map(
  Object.entries(openModels).flatMap(([reference, others]) =>
    [reference, reference.slice(reference.indexOf('/') + 1), ...others].map(id => [id.toLowerCase(), reference]),
  ),
)

/** Returns the repository with the open weights that an id names; undefined for other ids. */
export function openWeightsOf(modelId: string): string | undefined {
  return references.get(modelId.toLowerCase())
}
