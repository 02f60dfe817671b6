import { CONTEXT_TOKENS, MODEL } from './scripted-model.ts'

/** A coding agent with the configuration of its page in docs/clients. */
export interface Agent {
  readonly name: string
  /** The npm package, for its version in the report. */
  readonly package: string
  /** Relative to clients/node_modules. */
  readonly program: string
  /** Files in its home directory, by path. */
  files(gateway: Gateway): Record<string, string>
  readonly env: (gateway: Gateway) => Record<string, string>
  args(prompt: string): readonly string[]
}

export interface Gateway {
  /** Ends in `/v1`. */
  readonly baseUrl: string
  readonly apiKey: string
}

const noEnv = () => ({})

export const agents: readonly Agent[] = [
  {
    name: 'opencode',
    package: 'opencode-ai',
    program: 'opencode-ai/bin/opencode.exe',
    files: ({ baseUrl, apiKey }) => ({
      '.config/opencode/opencode.json': JSON.stringify({
        $schema: 'https://opencode.ai/config.json',
        provider: {
          switchyard: {
            npm: '@ai-sdk/openai-compatible',
            name: 'Switchyard',
            options: { baseURL: baseUrl, apiKey },
            models: { [MODEL]: {} },
          },
        },
      }),
    }),
    // The machine of this check may have no internet.
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' }),
    args: prompt => ['run', '--model', `switchyard/${MODEL}`, prompt],
  },
  {
    name: 'qwen-code',
    package: '@qwen-code/qwen-code',
    program: '.bin/qwen',
    files: () => ({}),
    env: ({ baseUrl, apiKey }) => ({ OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: apiKey, OPENAI_MODEL: MODEL }),
    args: prompt => ['--yolo', '--auth-type', 'openai', prompt],
  },
  {
    name: 'pi',
    package: '@earendil-works/pi-coding-agent',
    program: '.bin/pi',
    files: ({ baseUrl, apiKey }) => ({
      '.pi/agent/models.json': JSON.stringify({
        providers: {
          switchyard: { baseUrl, api: 'openai-completions', apiKey, models: [{ id: MODEL }] },
        },
      }),
    }),
    env: noEnv,
    args: prompt => ['--print', '--provider', 'switchyard', '--model', MODEL, prompt],
  },
  {
    name: 'cn',
    package: '@continuedev/cli',
    program: '.bin/cn',
    files: ({ baseUrl, apiKey }) => ({
      '.continue/config.yaml': [
        'name: Switchyard',
        'version: 1.0.0',
        'schema: v1',
        'models:',
        `  - name: ${MODEL}`,
        '    provider: openai',
        `    model: ${MODEL}`,
        `    apiBase: ${baseUrl}`,
        `    apiKey: ${apiKey}`,
        '    roles: [chat, edit, apply]',
        '    capabilities: [tool_use]',
        '    defaultCompletionOptions:',
        `      contextLength: ${CONTEXT_TOKENS}`,
        '',
      ].join('\n'),
    }),
    env: () => ({ CONTINUE_TELEMETRY_ENABLED: '0' }),
    args: prompt => ['--print', '--auto', '--config', '.continue/config.yaml', prompt],
  },
  codex('codex'),
  codex('codex-websocket', 'supports_websockets = true'),
  {
    name: 'claude-code',
    package: '@anthropic-ai/claude-code',
    program: '.bin/claude',
    files: () => ({}),
    env: ({ baseUrl, apiKey }) => ({
      ANTHROPIC_BASE_URL: baseUrl.replace(/\/v1$/, ''),
      ANTHROPIC_AUTH_TOKEN: apiKey,
      ANTHROPIC_MODEL: MODEL,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: MODEL,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    }),
    args: prompt => ['-p', prompt, '--permission-mode', 'acceptEdits', '--allowedTools', 'Write', 'Read'],
  },
  {
    name: 'gemini-cli',
    package: '@google/gemini-cli',
    program: '.bin/gemini',
    files: () => ({
      // The default for a key is a question at the first start.
      '.gemini/settings.json': JSON.stringify({ security: { auth: { selectedType: 'gemini-api-key' } } }),
    }),
    env: ({ baseUrl, apiKey }) => ({
      GOOGLE_GEMINI_BASE_URL: baseUrl.replace(/\/v1$/, ''),
      GEMINI_API_KEY: apiKey,
      GEMINI_MODEL: MODEL,
    }),
    args: prompt => ['--yolo', '--skip-trust', '--prompt', prompt],
  },
  {
    name: 'copilotkit',
    package: '@copilotkit/runtime',
    program: '../copilotkit.ts',
    files: () => ({}),
    env: ({ baseUrl, apiKey }) => ({
      SWITCHYARD_BASE_URL: baseUrl,
      SWITCHYARD_API_KEY: apiKey,
      SWITCHYARD_MODEL: MODEL,
      COPILOTKIT_TELEMETRY_DISABLED: 'true',
    }),
    args: prompt => [prompt],
  },
]

/** @param setting of its provider */
function codex(name: string, ...setting: readonly string[]): Agent {
  return {
    name,
    package: '@openai/codex',
    program: '.bin/codex',
    files: ({ baseUrl }) => ({
      '.codex/config.toml': [
        `model = "${MODEL}"`,
        'model_provider = "switchyard"',
        '[model_providers.switchyard]',
        'name = "Switchyard"',
        `base_url = "${baseUrl}"`,
        'env_key = "SWITCHYARD_API_KEY"',
        'wire_api = "responses"',
        ...setting,
        '',
      ].join('\n'),
    }),
    env: ({ apiKey }) => ({ SWITCHYARD_API_KEY: apiKey }),
    args: prompt => ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', prompt],
  }
}
