/** The ids of models that hosters offer: they stand in URLs, headers and log lines. */
export const MODEL_ID = /^[\w.:/@+-]{1,200}$/

/** Completes the sentence "`param` must be ...". */
export const modelIdText = 'the id of a model: 1 to 200 letters, digits or any of . : / @ + _ -'
