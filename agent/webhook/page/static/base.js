// What every module of the page draws with: Preact without a build step.
import {h, render, Fragment} from "./preact.mjs";
import {useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState} from "./hooks.mjs";
import htm from "./htm.module.js";

export const html = htm.bind(h);
export {Fragment, h, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState};
