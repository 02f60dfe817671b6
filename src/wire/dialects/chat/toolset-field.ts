/** Returns the toolset of a tool call as a field of the call, under Anthropic's name for it. */
export function toolsetField(toolset: string | undefined): { toolset_name?: string } {
  return toolset === undefined ? {} : { toolset_name: toolset }
}
