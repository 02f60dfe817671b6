/**
 * The ids of models that customers request from hosters: they stand in URLs, headers and log lines. No part between slashes is
 * `.` or `..`, because programs that resolve a URL with such a part ask for another one.
 */
export const MODEL_ID = /^(?!(?:.*\/)?\.\.?(?:\/|$))[\w.:/@+-]{1,200}$/

/** The ids of models at the servers of hosters, only sent in bodies. Servers such as llama.cpp use paths of files. */
export const UPSTREAM_MODEL_ID = /^[\w.:/@+-]{1,200}$/

/** Each completes the sentence "`param` must be ...". */
export const upstreamModelIdText = 'the id of a model: 1 to 200 letters, digits or any of . : / @ + _ -'
export const modelIdText = `${upstreamModelIdText}, without a part \`.\` or \`..\` between slashes`
